//! With the feature `override`, C's malloc is Heddle's in the whole process.
use std::ffi::{c_void, CString};
use std::os::raw::{c_char, c_int};

extern "C" {
    fn malloc(bytes: usize) -> *mut c_void;
    fn calloc(count: usize, bytes: usize) -> *mut c_void;
    fn realloc(p: *mut c_void, bytes: usize) -> *mut c_void;
    fn posix_memalign(out: *mut *mut c_void, alignment: usize, bytes: usize) -> c_int;
    fn free(p: *mut c_void);
    fn malloc_trim(pad: usize) -> c_int;
    fn realpath(path: *const c_char, resolved: *mut c_char) -> *mut c_char;
}

#[test]
fn it_is_active() {
    assert_eq!(heddle::override_active(), Ok(()));
}

#[test]
fn the_family_is_heddles() {
    unsafe {
        let mut aligned = std::ptr::null_mut();
        assert_eq!(posix_memalign(&mut aligned, 64, 100), 0);
        for p in [malloc(10), calloc(10, 10), realloc(malloc(10), 1000), aligned] {
            assert!(heddle::owns(p));
            free(p);
        }
    }
}

/// The C library's own malloc_trim knows nothing of Heddle's memory and would find none to give back.
#[test]
fn so_are_its_extras() {
    unsafe {
        let p = malloc(64 << 20);
        p.cast::<u8>().write_bytes(1, 64 << 20);
        free(p);
        let purged = heddle::stats().purged_total;
        malloc_trim(0);
        assert!(heddle::stats().purged_total >= purged + (32 << 20) || heddle::stats().cached == 0);
    }
}

/// What the C library allocates by itself comes from Heddle, too.
#[test]
fn the_c_librarys_own_calls_are_heddles() {
    let path = CString::new("/").unwrap();
    unsafe {
        let resolved = realpath(path.as_ptr(), std::ptr::null_mut());
        assert!(heddle::owns(resolved));
        free(resolved.cast());
    }
}

/// No #[global_allocator] here: the system's allocator of Rust's library is malloc.
#[test]
fn so_is_rusts_own_allocator() {
    assert!(heddle::owns(Box::new([0u8; 100]).as_ref()));
}
