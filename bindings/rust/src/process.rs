//! What concerns the whole process: statistics, options, giving memory back.
use crate::sys;
use core::fmt;
use core::mem::size_of;

/// Where memory is; bytes, unless the name says count.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
#[non_exhaustive]
pub struct Stats {
    /// Version of this structure in the library.
    pub version: usize,
    struct_bytes: usize,
    /// In blocks that the program holds, by their usable sizes.
    pub live: usize,
    /// How many such blocks.
    pub live_count: usize,
    /// Free blocks and unused ends in pages.
    pub free_in_pages: usize,
    /// The part of `live` in large blocks of their own.
    pub large: usize,
    /// Free runs that are still resident.
    pub cached: usize,
    /// Heddle's own tables, heaps and maps.
    pub metadata: usize,
    /// Address range in use.
    pub mapped: usize,
    /// Reserved address range.
    pub reserved: usize,
    /// Given back to the system since the start.
    pub purged_total: usize,
    /// Pages of blocks in use.
    pub page_count: usize,
    /// Heaps of living threads, and explicit ones.
    pub heap_count: usize,
    /// Heaps of ended threads that wait for adoption.
    pub orphan_count: usize,
    /// System calls that changed mappings.
    pub os_call_count: usize,
    /// Bytes moved by moving pages instead of copying.
    pub moved_total: usize,
    /// Resident set of the process; 0 when unknown.
    pub resident: usize,
    /// Touched memory of arenas, pools and handles; not part of `live`.
    pub objects: usize,
    /// How many such objects.
    pub object_count: usize,
}

impl Stats {
    pub(crate) fn new() -> Stats {
        Stats { struct_bytes: size_of::<Stats>(), ..Stats::default() }
    }
}

/// Where the memory of the process is. Other threads go on meanwhile.
pub fn stats() -> Stats {
    let mut stats = Stats::new();
    // SAFETY: struct_bytes says how much may be written.
    unsafe { sys::hd_stats_get(&mut stats) };
    stats
}

/// The text that fits into a buffer after a call that wants to write `length` bytes and a zero.
fn written(buffer: &[u8], length: usize) -> &str {
    let length = length.min(buffer.len().saturating_sub(1));
    core::str::from_utf8(&buffer[..length]).unwrap_or("")
}

/// Statistics as a table, as much of it as fits into `buffer` (8 KiB are enough).
pub fn stats_text(buffer: &mut [u8]) -> &str {
    // SAFETY: it writes at most buffer.len() bytes.
    let length = unsafe { sys::hd_stats_text(buffer.as_mut_ptr(), buffer.len()) };
    written(buffer, length)
}

/// Statistics as JSON, as much of it as fits into `buffer` (8 KiB are enough).
pub fn stats_json(buffer: &mut [u8]) -> &str {
    // SAFETY: it writes at most buffer.len() bytes.
    let length = unsafe { sys::hd_stats_json(buffer.as_mut_ptr(), buffer.len()) };
    written(buffer, length)
}

/// Takes in what other threads freed and gives free memory back to the system, all but `keep_bytes`; whether there was any.
pub fn collect(keep_bytes: usize) -> bool {
    // SAFETY: callable at any time, from any thread.
    unsafe { sys::hd_collect(keep_bytes) }
}

/// Says that the calling thread will not allocate for a while: its caches go to the common store.
pub fn thread_idle() {
    // SAFETY: callable at any time, from any thread.
    unsafe { sys::hd_thread_idle() }
}

/// Why an option was not set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OptionError {
    /// There is no option of that name.
    Unknown,
    /// The value can't be read or lies outside its range.
    Value,
    /// The option can only be set before the first allocation.
    Late,
}

impl fmt::Display for OptionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            OptionError::Unknown => "there is no such option",
            OptionError::Value => "the value can't be read or lies outside its range",
            OptionError::Late => "the option can only be set before the first allocation",
        })
    }
}

/// Sets an option, as the environment variable `HEDDLE` does: `set_option("purge-delay", "500")`.
pub fn set_option(name: &str, value: &str) -> Result<(), OptionError> {
    let name = sys::terminated::<64>(name).ok_or(OptionError::Unknown)?;
    let value = sys::terminated::<1024>(value).ok_or(OptionError::Value)?;
    // SAFETY: both texts end in a zero; the library keeps neither.
    match unsafe { sys::hd_option_set(name.as_ptr(), value.as_ptr()) } {
        0 => Ok(()),
        1 => Err(OptionError::Unknown),
        3 => Err(OptionError::Late),
        _ => Err(OptionError::Value),
    }
}

/// An option's value as text, as much of it as fits into `buffer`; `None` when there is no such option.
pub fn option<'a>(name: &str, buffer: &'a mut [u8]) -> Option<&'a str> {
    let name = sys::terminated::<64>(name)?;
    // SAFETY: the name ends in a zero; at most buffer.len() bytes are written.
    let length = unsafe { sys::hd_option_get(name.as_ptr(), buffer.as_mut_ptr(), buffer.len()) };
    if length == 0 {
        return None;
    }
    Some(written(buffer, length))
}

/// The library's version, as "0.1.0 (release)".
pub fn version() -> &'static str {
    // SAFETY: a constant of the library.
    unsafe { sys::constant(sys::hd_version_text()) }
}

/// Whether C's `malloc` is Heddle's in this process (feature `override`, or a preloaded library); if not, why.
pub fn override_active() -> Result<(), &'static str> {
    let mut reason = core::ptr::null();
    // SAFETY: the reason is a constant of the library.
    unsafe {
        if sys::hd_override_active(&mut reason) {
            Ok(())
        } else {
            Err(sys::constant(reason))
        }
    }
}
