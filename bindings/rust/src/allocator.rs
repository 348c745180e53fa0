//! `Allocator` for what the crate has, on a nightly compiler.
use crate::{sys, Arena, Heap, Heddle};
use core::alloc::{AllocError, Allocator, GlobalAlloc, Layout};
use core::ptr::NonNull;

fn slice(at: *mut u8, bytes: usize) -> Result<NonNull<[u8]>, AllocError> {
    NonNull::new(core::ptr::slice_from_raw_parts_mut(at, bytes)).ok_or(AllocError)
}

fn empty(layout: Layout) -> Result<NonNull<[u8]>, AllocError> {
    slice(layout.align() as *mut u8, 0)
}

macro_rules! allocator {
    ($type:ty) => {
        // SAFETY: blocks live until they are freed, also when the allocator is moved or cloned; no bytes need no block.
        unsafe impl Allocator for $type {
            fn allocate(&self, layout: Layout) -> Result<NonNull<[u8]>, AllocError> {
                match layout.size() {
                    0 => empty(layout),
                    bytes => slice(unsafe { self.alloc(layout) }, bytes),
                }
            }

            fn allocate_zeroed(&self, layout: Layout) -> Result<NonNull<[u8]>, AllocError> {
                match layout.size() {
                    0 => empty(layout),
                    bytes => slice(unsafe { self.alloc_zeroed(layout) }, bytes),
                }
            }

            unsafe fn deallocate(&self, p: NonNull<u8>, layout: Layout) {
                if layout.size() != 0 {
                    self.dealloc(p.as_ptr(), layout)
                }
            }

            unsafe fn grow(&self, p: NonNull<u8>, old: Layout, new: Layout) -> Result<NonNull<[u8]>, AllocError> {
                if old.size() != 0 && old.align() == new.align() {
                    return slice(self.realloc(p.as_ptr(), old, new.size()), new.size());
                }
                let block = self.allocate(new)?;
                block.cast::<u8>().as_ptr().copy_from_nonoverlapping(p.as_ptr(), old.size());
                self.deallocate(p, old);
                Ok(block)
            }

            unsafe fn shrink(&self, p: NonNull<u8>, old: Layout, new: Layout) -> Result<NonNull<[u8]>, AllocError> {
                if new.size() != 0 && old.align() == new.align() {
                    return slice(self.realloc(p.as_ptr(), old, new.size()), new.size());
                }
                let block = self.allocate(new)?;
                block.cast::<u8>().as_ptr().copy_from_nonoverlapping(p.as_ptr(), new.size());
                self.deallocate(p, old);
                Ok(block)
            }
        }
    };
}

allocator!(Heddle);
allocator!(&Heap);

// SAFETY: blocks live until the arena is reset or dropped, which no allocator that borrows it survives.
unsafe impl Allocator for &Arena {
    fn allocate(&self, layout: Layout) -> Result<NonNull<[u8]>, AllocError> {
        let at = self.try_alloc_layout(layout).ok_or(AllocError)?;
        slice(at.as_ptr(), layout.size())
    }

    unsafe fn deallocate(&self, _: NonNull<u8>, _: Layout) {}

    /// The last block grows where it lies.
    unsafe fn grow(&self, p: NonNull<u8>, old: Layout, new: Layout) -> Result<NonNull<[u8]>, AllocError> {
        if old.size() == 0 || old.align() != new.align() {
            let block = self.allocate(new)?;
            block.cast::<u8>().as_ptr().copy_from_nonoverlapping(p.as_ptr(), old.size());
            return Ok(block);
        }
        let at = sys::hd_arena_realloc_aligned(self.raw(), new.align(), p.as_ptr().cast(), old.size(), new.size());
        slice(at.cast(), new.size())
    }
}
