//! The part of heddle.h and heddle/arena.h that the crate uses. Text is bytes with a zero at the end.
use core::ffi::c_void;

#[repr(C)]
pub struct HdHeap {
    _private: [u8; 0],
}

#[repr(C)]
pub struct HdArena {
    _private: [u8; 0],
}

#[repr(C)]
pub struct HdHeapConfig {
    pub struct_bytes: usize,
    pub name: *const u8,
    pub limit_bytes: usize,
    pub memory: *mut c_void,
    pub memory_bytes: usize,
}

#[repr(C)]
pub struct HdArenaConfig {
    pub struct_bytes: usize,
    pub name: *const u8,
    pub capacity_bytes: usize,
    pub limit_bytes: usize,
    pub chunk_bytes: usize,
    pub keep_bytes: usize,
    pub guard: bool,
    pub shared: bool,
}

/// Heads of `hd_arena_stats`; the library fills as much as struct_bytes says.
#[repr(C)]
pub struct HdArenaStats {
    pub struct_bytes: usize,
    pub capacity: usize,
    pub used_left: usize,
    pub rest: [usize; 9],
}

extern "C" {
    pub fn hd_malloc(bytes: usize) -> *mut c_void;
    pub fn hd_zalloc(bytes: usize) -> *mut c_void;
    pub fn hd_realloc(p: *mut c_void, bytes: usize) -> *mut c_void;
    pub fn hd_aligned_alloc(alignment: usize, bytes: usize) -> *mut c_void;
    pub fn hd_aligned_zalloc(alignment: usize, bytes: usize) -> *mut c_void;
    pub fn hd_aligned_realloc(p: *mut c_void, alignment: usize, bytes: usize) -> *mut c_void;
    pub fn hd_free_sized(p: *mut c_void, bytes: usize);
    pub fn hd_free_aligned_sized(p: *mut c_void, alignment: usize, bytes: usize);
    pub fn hd_expand(p: *mut c_void, bytes: usize) -> *mut c_void;
    pub fn hd_usable_size(p: *const c_void) -> usize;
    pub fn hd_good_size(bytes: usize) -> usize;
    pub fn hd_owns(p: *const c_void) -> bool;

    pub fn hd_heap_create(config: *const HdHeapConfig) -> *mut HdHeap;
    pub fn hd_heap_destroy(heap: *mut HdHeap);
    pub fn hd_heap_reset(heap: *mut HdHeap);
    pub fn hd_heap_malloc(heap: *mut HdHeap, bytes: usize) -> *mut c_void;
    pub fn hd_heap_zalloc(heap: *mut HdHeap, bytes: usize) -> *mut c_void;
    pub fn hd_heap_realloc(heap: *mut HdHeap, p: *mut c_void, bytes: usize) -> *mut c_void;
    pub fn hd_heap_aligned_alloc(heap: *mut HdHeap, alignment: usize, bytes: usize) -> *mut c_void;
    pub fn hd_heap_of(p: *const c_void) -> *mut HdHeap;
    pub fn hd_heap_stats_get(heap: *mut HdHeap, stats: *mut crate::Stats) -> bool;

    pub fn hd_arena_create(config: *const HdArenaConfig) -> *mut HdArena;
    pub fn hd_arena_destroy(arena: *mut HdArena) -> bool;
    pub fn hd_arena_realloc_aligned(arena: *mut HdArena, alignment: usize, p: *mut c_void, old: usize, bytes: usize) -> *mut c_void;
    pub fn hd_arena_reset(arena: *mut HdArena);
    pub fn hd_arena_owns(arena: *const HdArena, p: *const c_void) -> bool;
    pub fn hd_arena_stats_get(arena: *const HdArena, stats: *mut HdArenaStats) -> bool;

    pub fn hd_collect(keep_bytes: usize) -> bool;
    pub fn hd_thread_idle();
    pub fn hd_option_set(name: *const u8, value: *const u8) -> i32;
    pub fn hd_option_get(name: *const u8, buffer: *mut u8, bytes: usize) -> usize;
    pub fn hd_stats_get(stats: *mut crate::Stats) -> bool;
    pub fn hd_stats_text(buffer: *mut u8, bytes: usize) -> usize;
    pub fn hd_stats_json(buffer: *mut u8, bytes: usize) -> usize;
    pub fn hd_version_text() -> *const u8;
    pub fn hd_override_active(reason: *mut *const u8) -> bool;
}

/// A linker takes from an archive what somebody refers to. These bring in what acts by itself: the file that reads options and prints
/// statistics at a process's start and end, and with `override` the two that define malloc and its family.
#[used]
static START: unsafe extern "C" fn(*mut *const u8) -> bool = hd_override_active;

#[cfg(feature = "override")]
mod family {
    use core::ffi::c_void;

    extern "C" {
        fn malloc(bytes: usize) -> *mut c_void;
        fn malloc_trim(pad: usize) -> i32;
    }

    #[used]
    static MALLOC: unsafe extern "C" fn(usize) -> *mut c_void = malloc;
    #[used]
    static EXTRAS: unsafe extern "C" fn(usize) -> i32 = malloc_trim;
}

/// `text` with a zero at its end, in a buffer; `None` when it is too long or holds a zero itself.
pub fn terminated<const N: usize>(text: &str) -> Option<[u8; N]> {
    let mut buffer = [0; N];
    if text.len() >= N || text.bytes().any(|byte| byte == 0) {
        return None;
    }
    buffer[..text.len()].copy_from_slice(text.as_bytes());
    Some(buffer)
}

/// A constant text of the library's.
///
/// # Safety
/// `at` leads to ASCII with a zero at its end that lives as long as the process.
pub unsafe fn constant(at: *const u8) -> &'static str {
    let mut length = 0;
    while *at.add(length) != 0 {
        length += 1;
    }
    core::str::from_utf8_unchecked(core::slice::from_raw_parts(at, length))
}
