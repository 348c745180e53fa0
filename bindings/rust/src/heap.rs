//! Heaps: memory with a name and a limit that ends at once.
use crate::sys::{self, HdHeap, HdHeapConfig};
use crate::{Stats, ALIGNED};
use core::alloc::{GlobalAlloc, Layout};
use core::fmt;
use core::marker::PhantomData;
use core::mem::size_of;
use core::ops::{Deref, DerefMut};
use core::ptr::{self, NonNull};

/// What a heap may hold and how it is called.
#[derive(Clone, Copy, Debug, Default)]
pub struct HeapConfig<'a> {
    /// Shown in statistics, up to 31 bytes; empty for none.
    pub name: &'a str,
    /// Most bytes of pages the heap may hold, in steps of 64 KiB; 0 for no limit.
    pub limit_bytes: usize,
}

/// A heap of its own. Any thread may use it; calls on one heap exclude each other. Dropping it frees every block in it.
///
/// [`Heap::boxed`] is the safe way in. Raw blocks come through [`GlobalAlloc`], which any `Heap` implements; with the feature
/// `allocator_api` `&Heap` is an `Allocator`, for `Vec::new_in` and the like.
pub struct Heap {
    raw: NonNull<HdHeap>,
}

// SAFETY: the library locks the heap in each call, and a heap belongs to no thread.
unsafe impl Send for Heap {}
unsafe impl Sync for Heap {}

impl Heap {
    /// A heap without name or limit; `None` without memory.
    pub fn new() -> Option<Heap> {
        Heap::with_config(HeapConfig::default())
    }

    /// A heap as `config` says; `None` without memory, or when the name is longer than 31 bytes or holds a zero.
    pub fn with_config(config: HeapConfig<'_>) -> Option<Heap> {
        let name = sys::terminated::<32>(config.name)?;
        let raw_config = HdHeapConfig {
            struct_bytes: size_of::<HdHeapConfig>(),
            name: if config.name.is_empty() { ptr::null() } else { name.as_ptr() },
            limit_bytes: config.limit_bytes,
            memory: ptr::null_mut(),
            memory_bytes: 0,
        };
        // SAFETY: the library copies the name.
        NonNull::new(unsafe { sys::hd_heap_create(&raw_config) }).map(|raw| Heap { raw })
    }

    /// Puts a value into the heap; gives it back when the heap has no memory.
    pub fn boxed<T>(&self, value: T) -> Result<HeapBox<'_, T>, T> {
        let layout = Layout::new::<T>();
        // SAFETY: a layout without bytes is never passed on.
        let raw = match layout.size() {
            0 => Some(NonNull::dangling()),
            _ => NonNull::new(unsafe { self.alloc(layout) }.cast::<T>()),
        };
        match raw {
            Some(raw) => {
                // SAFETY: a fresh block of T's size and alignment.
                unsafe { raw.as_ptr().write(value) };
                Ok(HeapBox { heap: self, raw, owns: PhantomData })
            }
            None => Err(value),
        }
    }

    /// Frees every block at once; the heap stays usable. Destructors do not run.
    ///
    /// That no box of the heap is left is what the exclusive borrow says; blocks that were taken raw must not be used any more.
    pub fn reset(&mut self) {
        // SAFETY: see above.
        unsafe { sys::hd_heap_reset(self.raw.as_ptr()) }
    }

    /// What lies in the heap: `live`, `live_count`, `free_in_pages`, `large`, `page_count`.
    pub fn stats(&self) -> Stats {
        let mut stats = Stats::new();
        // SAFETY: struct_bytes says how much may be written.
        unsafe { sys::hd_heap_stats_get(self.raw.as_ptr(), &mut stats) };
        stats
    }

    /// Whether `p` is a live block of this heap.
    ///
    /// # Safety
    /// `p` is the start of a live block of any heap, or lies outside Heddle's memory.
    pub unsafe fn contains<T: ?Sized>(&self, p: *const T) -> bool {
        sys::hd_heap_of(p.cast()) == self.raw.as_ptr()
    }
}

impl Drop for Heap {
    fn drop(&mut self) {
        // SAFETY: boxes borrow the heap, so none is left.
        unsafe { sys::hd_heap_destroy(self.raw.as_ptr()) }
    }
}

impl fmt::Debug for Heap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let stats = self.stats();
        f.debug_struct("Heap").field("live", &stats.live).field("live_count", &stats.live_count).finish()
    }
}

// SAFETY: as for Heddle; blocks live until they are freed or the heap ends, which its user answers for.
unsafe impl GlobalAlloc for Heap {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if layout.align() <= ALIGNED {
            sys::hd_heap_malloc(self.raw.as_ptr(), layout.size()).cast()
        } else {
            sys::hd_heap_aligned_alloc(self.raw.as_ptr(), layout.align(), layout.size()).cast()
        }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        if layout.align() <= ALIGNED {
            return sys::hd_heap_zalloc(self.raw.as_ptr(), layout.size()).cast();
        }
        let block = self.alloc(layout);
        if !block.is_null() {
            block.write_bytes(0, layout.size());
        }
        block
    }

    unsafe fn dealloc(&self, p: *mut u8, layout: Layout) {
        sys::hd_free_aligned_sized(p.cast(), layout.align(), layout.size())
    }

    unsafe fn realloc(&self, p: *mut u8, layout: Layout, bytes: usize) -> *mut u8 {
        if layout.align() <= ALIGNED {
            return sys::hd_heap_realloc(self.raw.as_ptr(), p.cast(), bytes).cast();
        }
        let block = self.alloc(Layout::from_size_align_unchecked(bytes, layout.align()));
        if !block.is_null() {
            block.copy_from_nonoverlapping(p, layout.size().min(bytes));
            self.dealloc(p, layout);
        }
        block
    }
}

/// A value in a heap, as `Box` is one in the common memory.
pub struct HeapBox<'heap, T> {
    heap: &'heap Heap,
    raw: NonNull<T>,
    owns: PhantomData<T>,
}

// SAFETY: it owns its T, and the heap may be used from any thread.
unsafe impl<T: Send> Send for HeapBox<'_, T> {}
unsafe impl<T: Sync> Sync for HeapBox<'_, T> {}

impl<'heap, T> HeapBox<'heap, T> {
    /// Takes the value out and frees its block.
    pub fn into_inner(boxed: Self) -> T {
        // SAFETY: the value is read once and its box, whose drop is left out, never again.
        unsafe {
            let value = boxed.raw.as_ptr().read();
            boxed.free();
            core::mem::forget(boxed);
            value
        }
    }

    unsafe fn free(&self) {
        let layout = Layout::new::<T>();
        if layout.size() != 0 {
            self.heap.dealloc(self.raw.as_ptr().cast(), layout);
        }
    }
}

impl<T> Deref for HeapBox<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        // SAFETY: a live T, borrowed as the box is.
        unsafe { self.raw.as_ref() }
    }
}

impl<T> DerefMut for HeapBox<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: a live T, borrowed as the box is.
        unsafe { self.raw.as_mut() }
    }
}

impl<T> Drop for HeapBox<'_, T> {
    fn drop(&mut self) {
        // SAFETY: the value is dropped once, its block freed once, also when its destructor panics.
        struct Free<'a, 'heap, T>(&'a HeapBox<'heap, T>);
        impl<T> Drop for Free<'_, '_, T> {
            fn drop(&mut self) {
                unsafe { self.0.free() }
            }
        }
        let raw = self.raw;
        let _free = Free(self);
        unsafe { raw.as_ptr().drop_in_place() }
    }
}

impl<T: fmt::Debug> fmt::Debug for HeapBox<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}
