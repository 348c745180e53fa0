//! Arenas: values that are freed together.
use crate::sys::{self, HdArena, HdArenaConfig, HdArenaStats};
use core::alloc::Layout;
use core::fmt;
use core::mem::size_of;
use core::ptr::{self, NonNull};

/// An arena: values are laid one behind the other and freed together, by [`Arena::reset`] or when it is dropped.
///
/// Their destructors do not run. The `try_` forms give `None` where the others panic: without memory.
pub struct Arena {
    raw: NonNull<HdArena>,
}

// SAFETY: an arena belongs to no thread. It is not Sync: one thread at a time may lay values in it.
unsafe impl Send for Arena {}

impl Arena {
    /// An arena that grows by chunks; `None` without memory.
    pub fn new() -> Option<Arena> {
        Arena::create(0)
    }

    /// An arena of one range of at least `bytes` bytes, reserved whole and used only as far as values reach; `None` without memory.
    pub fn with_capacity(bytes: usize) -> Option<Arena> {
        Arena::create(bytes.max(1))
    }

    fn create(capacity_bytes: usize) -> Option<Arena> {
        let config = HdArenaConfig {
            struct_bytes: size_of::<HdArenaConfig>(),
            name: ptr::null(),
            capacity_bytes,
            limit_bytes: 0,
            chunk_bytes: 0,
            keep_bytes: 0,
            guard: false,
            shared: false,
        };
        // SAFETY: the library copies what it needs.
        NonNull::new(unsafe { sys::hd_arena_create(&config) }).map(|raw| Arena { raw })
    }

    #[cfg(feature = "allocator_api")]
    pub(crate) fn raw(&self) -> *mut HdArena {
        self.raw.as_ptr()
    }

    /// Room for a layout, content undefined.
    pub fn try_alloc_layout(&self, layout: Layout) -> Option<NonNull<u8>> {
        if layout.size() == 0 {
            // Aligned, and nothing else is asked of it.
            return NonNull::new(layout.align() as *mut u8);
        }
        // SAFETY: without a block to resize it lays a new one.
        NonNull::new(unsafe { sys::hd_arena_realloc_aligned(self.raw.as_ptr(), layout.align(), ptr::null_mut(), 0, layout.size()) }.cast())
    }

    /// Lays a value in the arena.
    #[allow(clippy::mut_from_ref)] // each call gives room of its own
    pub fn try_alloc<T>(&self, value: T) -> Option<&mut T> {
        let at = self.try_alloc_layout(Layout::new::<T>())?.cast::<T>().as_ptr();
        // SAFETY: fresh room of T's size and alignment, until a reset, which borrows the arena alone.
        unsafe {
            at.write(value);
            Some(&mut *at)
        }
    }

    /// Copies a slice into the arena.
    #[allow(clippy::mut_from_ref)]
    pub fn try_alloc_slice<T: Copy>(&self, values: &[T]) -> Option<&mut [T]> {
        let at = self.try_alloc_layout(Layout::for_value(values))?.cast::<T>().as_ptr();
        // SAFETY: as above, for as many values as the slice has.
        unsafe {
            at.copy_from_nonoverlapping(values.as_ptr(), values.len());
            Some(core::slice::from_raw_parts_mut(at, values.len()))
        }
    }

    /// As [`Arena::try_alloc`].
    #[allow(clippy::mut_from_ref)]
    pub fn alloc<T>(&self, value: T) -> &mut T {
        self.try_alloc(value).expect("heddle: no room in the arena")
    }

    /// As [`Arena::try_alloc_slice`].
    #[allow(clippy::mut_from_ref)]
    pub fn alloc_slice<T: Copy>(&self, values: &[T]) -> &mut [T] {
        self.try_alloc_slice(values).expect("heddle: no room in the arena")
    }

    /// Copies text into the arena.
    pub fn alloc_str(&self, text: &str) -> &str {
        // SAFETY: a copy of text.
        unsafe { core::str::from_utf8_unchecked(self.alloc_slice(text.as_bytes())) }
    }

    /// Frees everything that lies in the arena. No reference into it is left, says the exclusive borrow.
    pub fn reset(&mut self) {
        // SAFETY: see above.
        unsafe { sys::hd_arena_reset(self.raw.as_ptr()) }
    }

    /// Bytes that values and padding take.
    pub fn used(&self) -> usize {
        let mut stats = HdArenaStats { struct_bytes: size_of::<HdArenaStats>(), capacity: 0, used_left: 0, rest: [0; 9] };
        // SAFETY: struct_bytes says how much may be written.
        unsafe { sys::hd_arena_stats_get(self.raw.as_ptr(), &mut stats) };
        stats.used_left
    }

    /// Whether `p` lies in what was laid in the arena.
    pub fn contains<T: ?Sized>(&self, p: *const T) -> bool {
        // SAFETY: the pointer is compared, never followed.
        unsafe { sys::hd_arena_owns(self.raw.as_ptr(), p.cast()) }
    }
}

impl Drop for Arena {
    fn drop(&mut self) {
        // SAFETY: references into the arena borrow it, so none is left.
        unsafe { sys::hd_arena_destroy(self.raw.as_ptr()) };
    }
}

impl fmt::Debug for Arena {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Arena").field("used", &self.used()).finish()
    }
}
