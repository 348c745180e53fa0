//! Heddle as the memory of a Rust program.
//!
//! ```
//! #[global_allocator]
//! static ALLOCATOR: heddle::Heddle = heddle::Heddle;
//!
//! let words: Vec<String> = "it is all Heddle's".split(' ').map(String::from).collect();
//! assert!(heddle::owns(words.as_ptr()));
//! ```
//!
//! Besides the global allocator there are [`Heap`]s with a limit that end at once, [`Arena`]s that free everything together, and
//! functions that look at memory and give it back: [`stats`], [`usable_size`], [`collect`].
#![no_std]
#![cfg_attr(feature = "allocator_api", feature(allocator_api))]
#![warn(missing_docs)]

#[cfg(feature = "allocator_api")]
mod allocator;
mod arena;
mod heap;
mod process;
mod sys;

use core::alloc::{GlobalAlloc, Layout};
use core::ffi::c_void;

pub use arena::Arena;
pub use heap::{Heap, HeapBox, HeapConfig};
pub use process::*;

/// What every block is aligned to.
const ALIGNED: usize = 16;

/// The allocator of the process: each thread has a heap of its own, and any thread may free any block.
#[derive(Clone, Copy, Debug, Default)]
pub struct Heddle;

// SAFETY: the library gives blocks of at least the size and alignment asked for, to one owner each, and answers NULL without memory; it
// never unwinds. Sizes and alignments of a Layout are within what it takes, up to an alignment of 2^40, beyond which it answers NULL.
unsafe impl GlobalAlloc for Heddle {
    #[inline]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if layout.align() <= ALIGNED {
            sys::hd_malloc(layout.size()).cast()
        } else {
            sys::hd_aligned_alloc(layout.align(), layout.size()).cast()
        }
    }

    #[inline]
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        if layout.align() <= ALIGNED {
            sys::hd_zalloc(layout.size()).cast()
        } else {
            sys::hd_aligned_zalloc(layout.align(), layout.size()).cast()
        }
    }

    #[inline]
    unsafe fn dealloc(&self, p: *mut u8, layout: Layout) {
        if layout.align() <= ALIGNED {
            sys::hd_free_sized(p.cast(), layout.size())
        } else {
            sys::hd_free_aligned_sized(p.cast(), layout.align(), layout.size())
        }
    }

    #[inline]
    unsafe fn realloc(&self, p: *mut u8, layout: Layout, bytes: usize) -> *mut u8 {
        if layout.align() <= ALIGNED {
            sys::hd_realloc(p.cast(), bytes).cast()
        } else {
            sys::hd_aligned_realloc(p.cast(), layout.align(), bytes).cast()
        }
    }
}

/// Bytes that the owner of a block may use, at least what it asked for.
///
/// # Safety
/// `p` is the start of a live block of Heddle's.
#[inline]
pub unsafe fn usable_size<T>(p: *const T) -> usize {
    sys::hd_usable_size(p as *const c_void)
}

/// Grows or shrinks a block where it stands; whether it now holds `bytes` bytes.
///
/// # Safety
/// `p` is the start of a live block of Heddle's, and nothing beyond `bytes` of it is used any more. Who frees the block by its layout
/// may still name the old size.
#[inline]
pub unsafe fn expand<T>(p: *mut T, bytes: usize) -> bool {
    !sys::hd_expand(p as *mut c_void, bytes).is_null()
}

/// The usable size that a block of `bytes` bytes would have; 0 for more than any block can have.
#[inline]
pub fn good_size(bytes: usize) -> usize {
    // SAFETY: it only computes.
    unsafe { sys::hd_good_size(bytes) }
}

/// Whether `p` lies in memory that Heddle manages.
#[inline]
pub fn owns<T: ?Sized>(p: *const T) -> bool {
    // SAFETY: the pointer is compared, never followed.
    unsafe { sys::hd_owns(p as *const c_void) }
}
