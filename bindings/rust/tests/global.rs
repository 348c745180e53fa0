//! The crate as the global allocator of a real program.
use heddle::Heddle;
use std::alloc::{alloc, alloc_zeroed, dealloc, realloc, GlobalAlloc, Layout};
use std::collections::{BTreeMap, HashMap};
use std::sync::{mpsc, Arc, Mutex};
use std::thread;

#[global_allocator]
static ALLOCATOR: Heddle = Heddle;

/// Leaves used memory of many sizes behind, so that the next blocks stand on it.
fn soil() {
    let blocks: Vec<Vec<u8>> = (0..20).flat_map(|power| (0..4).map(move |_| vec![0xA5; 16 << power])).collect();
    assert!(blocks.iter().all(|block| block[0] == 0xA5));
}

fn resident() -> usize {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap();
    statm.split(' ').nth(1).unwrap().parse::<usize>().unwrap() * 4096
}

#[test]
fn everything_lies_in_heddle() {
    assert!(heddle::owns(Box::new(1).as_ref()));
    assert!(heddle::owns(String::from("text").as_ptr()));
    assert!(heddle::owns(Arc::new([0; 100]).as_ptr()));
    let map: HashMap<i32, String> = (0..100).map(|i| (i, i.to_string())).collect();
    assert!(heddle::owns(map[&42].as_ptr()));
    let local = 1;
    assert!(!heddle::owns(&local));
    assert!(!heddle::owns("literal"));
    assert!(!heddle::owns(std::ptr::null::<u8>()));
}

#[test]
fn vectors_grow_and_shrink() {
    let mut numbers = Vec::new();
    for i in 0..2_000_000u64 {
        numbers.push(i);
    }
    assert!(numbers.iter().enumerate().all(|(i, &n)| i as u64 == n));
    numbers.truncate(1000);
    numbers.shrink_to_fit();
    assert!(numbers.iter().enumerate().all(|(i, &n)| i as u64 == n));
    let usable = unsafe { heddle::usable_size(numbers.as_ptr()) };
    assert!((8000..=8192 * 3 / 2).contains(&usable), "{usable} bytes: its class has 8192, one that lends a block up to half more");
    let mut text = String::new();
    for i in 0..50_000 {
        text.push_str(&i.to_string());
        text.push(' ');
    }
    assert_eq!(text.split_whitespace().map(|word| word.parse::<u64>().unwrap()).sum::<u64>(), 50_000 * 49_999 / 2);
}

/// Every size and alignment, at once alive, through alloc, alloc_zeroed, realloc up and down, dealloc.
#[test]
fn layouts() {
    let mut held = Vec::new();
    for align in (0..=16).map(|power| 1usize << power) {
        for bytes in [1, 7, 8, 16, 17, 100, 1000, 4096, 10_000, 57_344, 57_345, 300_000] {
            let layout = Layout::from_size_align(bytes, align).unwrap();
            let fill = (align.trailing_zeros() * 13 + bytes as u32 % 251) as u8 | 1;
            unsafe {
                let zeroed = alloc_zeroed(layout);
                assert!(!zeroed.is_null() && zeroed as usize % align.max(16) == 0, "{:?} at {:?}", layout, zeroed);
                assert!(std::slice::from_raw_parts(zeroed, bytes).iter().all(|&byte| byte == 0), "{:?}", layout);
                let block = alloc(layout);
                assert!(!block.is_null() && block as usize % align.max(16) == 0, "{:?} at {:?}", layout, block);
                assert!(heddle::usable_size(block) >= bytes);
                zeroed.write_bytes(!fill, bytes);
                block.write_bytes(fill, bytes);
                held.push((zeroed, layout, !fill));
                held.push((block, layout, fill));
            }
        }
    }
    for (block, layout, fill) in held {
        unsafe {
            let mut block = block;
            let mut bytes = layout.size();
            for wanted in [layout.size() * 3 + 5, layout.size() / 2 + 1, layout.size() + 1, 1] {
                block = realloc(block, Layout::from_size_align(bytes, layout.align()).unwrap(), wanted);
                assert!(!block.is_null() && block as usize % layout.align() == 0, "{:?} to {} at {:?}", layout, wanted, block);
                let kept = bytes.min(wanted);
                assert!(std::slice::from_raw_parts(block, kept).iter().all(|&byte| byte == fill), "{:?} to {}", layout, wanted);
                block.write_bytes(fill, wanted);
                bytes = wanted;
            }
            dealloc(block, Layout::from_size_align(bytes, layout.align()).unwrap());
        }
    }
}

#[test]
fn zeroed_memory() {
    for _ in 0..5 {
        soil();
        for power in 0..20 {
            assert!(vec![0u8; 24 << power].iter().all(|&byte| byte == 0));
        }
    }
}

#[test]
fn over_aligned_values() {
    #[repr(align(4096))]
    #[derive(Clone)]
    struct Page([u8; 100]);
    let mut pages = Vec::new();
    for i in 0..200 {
        pages.push(Page([i; 100]));
        assert!(pages.as_ptr() as usize % 4096 == 0);
    }
    let boxed: Vec<Box<Page>> = pages.iter().cloned().map(Box::new).collect();
    for (i, page) in boxed.iter().enumerate() {
        assert!(&**page as *const Page as usize % 4096 == 0);
        assert!(page.0.iter().all(|&byte| byte as usize == i));
    }
}

#[test]
fn no_memory_is_an_error() {
    let mut bytes: Vec<u8> = Vec::new();
    assert!(bytes.try_reserve_exact(isize::MAX as usize).is_err());
    bytes.extend_from_slice(b"still good");
    assert!(bytes.try_reserve_exact(isize::MAX as usize - 100).is_err());
    assert_eq!(bytes, b"still good");
    let layout = Layout::from_size_align(16, 1 << 50).unwrap();
    assert!(unsafe { ALLOCATOR.alloc(layout) }.is_null());
    assert!(unsafe { ALLOCATOR.alloc_zeroed(layout) }.is_null());
}

#[test]
fn boxes_cross_threads() {
    let (send, receive) = mpsc::channel::<Box<[u64]>>();
    let producers: Vec<_> = (0..4u64)
        .map(|t| {
            let send = send.clone();
            thread::spawn(move || {
                for i in 0..5_000 {
                    send.send(vec![t * 10_000 + i; (i % 200) as usize + 1].into_boxed_slice()).unwrap();
                }
            })
        })
        .collect();
    drop(send);
    let mut seen = BTreeMap::new();
    for block in receive {
        assert!(block.iter().all(|&n| n == block[0]));
        *seen.entry(block[0] / 10_000).or_insert(0) += 1;
    }
    producers.into_iter().for_each(|producer| producer.join().unwrap());
    assert_eq!(seen, (0..4).map(|t| (t, 5_000)).collect());
}

#[test]
fn many_short_threads() {
    let shared = Arc::new(Mutex::new(Vec::new()));
    for round in 0..100 {
        let threads: Vec<_> = (0..4)
            .map(|t| {
                let shared = Arc::clone(&shared);
                thread::spawn(move || {
                    let words: Vec<String> = (0..100).map(|i| format!("{} {} {}", round, t, i)).collect();
                    shared.lock().unwrap().push(words);
                })
            })
            .collect();
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        if round % 10 == 9 {
            shared.lock().unwrap().clear();
        }
    }
    assert!(shared.lock().unwrap().is_empty());
}

#[test]
fn sizes() {
    let layout = Layout::from_size_align(100, 8).unwrap();
    unsafe {
        let block = alloc(layout);
        let usable = heddle::usable_size(block);
        assert!((heddle::good_size(100)..=128).contains(&usable)); // its first blocks lie among those of 128 bytes
        assert!(heddle::expand(block, usable));
        assert!(!heddle::expand(block, 1 << 40));
        dealloc(block, layout);
    }
    assert_eq!(heddle::good_size(usize::MAX), 0);
}

/// Fresh memory from the system is zero already: nobody touches it.
#[test]
fn statistics_and_collecting() {
    let before = heddle::stats();
    let large = vec![0u8; 256 << 20];
    let during = heddle::stats();
    assert!(during.live >= 256 << 20 && during.live_count > 0 && during.large >= 256 << 20);
    assert!(during.version == 1 && during.page_count > 0 && during.heap_count > 0);
    assert!(resident() < 200 << 20, "a cleared block is resident: {}", resident());
    drop(large);
    assert!(heddle::stats().live < before.live + (128 << 20));
    heddle::collect(0);
    heddle::thread_idle();

    let mut buffer = [0; 8192];
    assert!(heddle::stats_json(&mut buffer).starts_with('{'));
    assert!(heddle::stats_text(&mut buffer).contains("blocks that the program holds"));
    assert_eq!(heddle::stats_text(&mut [0; 5]).len(), 4);
    assert_eq!(heddle::stats_text(&mut []), "");
}

#[test]
fn options() {
    let mut buffer = [0; 64];
    heddle::set_option("purge-delay", "777").unwrap();
    assert_eq!(heddle::option("purge-delay", &mut buffer), Some("777"));
    assert_eq!(heddle::option("purge-delay", &mut [0; 2]), Some("7"));
    assert_eq!(heddle::option("no-such-option", &mut buffer), None);
    assert_eq!(heddle::set_option("no-such-option", "1"), Err(heddle::OptionError::Unknown));
    assert_eq!(heddle::set_option("purge-delay", "soon"), Err(heddle::OptionError::Value));
    assert_eq!(heddle::set_option("purge\0-delay", "1"), Err(heddle::OptionError::Unknown));
    assert_eq!(heddle::set_option("purge-delay", "1\0"), Err(heddle::OptionError::Value));
    assert_eq!(heddle::OptionError::Late.to_string(), "the option can only be set before the first allocation");
    assert!(heddle::version().starts_with(|c: char| c.is_ascii_digit()));
}

/// Without the feature `override` C's malloc stays the C library's.
#[test]
#[cfg(not(feature = "override"))]
fn malloc_stays() {
    assert_eq!(heddle::override_active(), Err("another malloc stands in front of Heddle's"));
}
