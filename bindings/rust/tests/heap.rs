//! Heaps, beside the system's allocator.
use heddle::{Heap, HeapBox, HeapConfig};
use std::alloc::{GlobalAlloc, Layout};
use std::cell::Cell;
use std::thread;

struct Counted<'a>(&'a Cell<u32>, [u8; 40]);

impl Drop for Counted<'_> {
    fn drop(&mut self) {
        self.0.set(self.0.get() + 1);
    }
}

#[test]
fn boxes() {
    let heap = Heap::new().unwrap();
    let dropped = Cell::new(0);
    let mut value = heap.boxed(Counted(&dropped, [7; 40])).ok().unwrap();
    value.1[0] = 8;
    assert!(unsafe { heap.contains(&*value) } && heddle::owns(&*value));
    assert_eq!(heap.stats().live_count, 1);
    assert_eq!(value.1.iter().map(|&byte| byte as u32).sum::<u32>(), 8 + 39 * 7);
    drop(value);
    assert_eq!((dropped.get(), heap.stats().live_count), (1, 0));

    let value = heap.boxed(Counted(&dropped, [1; 40])).ok().unwrap();
    let inner = HeapBox::into_inner(value);
    assert_eq!((dropped.get(), heap.stats().live_count, inner.1[39]), (1, 0, 1));
    drop(inner);
    assert_eq!(dropped.get(), 2);

    let nothing = heap.boxed(()).unwrap();
    assert_eq!(heap.stats().live_count, 0);
    drop(nothing);
    assert_eq!(format!("{:?}", heap.boxed(5).unwrap()), "5");
    assert!(format!("{:?}", heap).contains("live_count"));
}

#[test]
fn a_panicking_destructor_frees_the_block() {
    struct Panics(#[allow(dead_code)] u64);
    impl Drop for Panics {
        fn drop(&mut self) {
            panic!("on purpose");
        }
    }
    let heap = Heap::new().unwrap();
    let boxed = heap.boxed(Panics(1)).ok().unwrap();
    assert!(std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| drop(boxed))).is_err());
    assert_eq!(heap.stats().live_count, 0);
}

#[test]
fn over_aligned_boxes() {
    #[repr(align(256))]
    struct Wide(u8);
    let heap = Heap::new().unwrap();
    let boxes: Vec<_> = (0..100).map(|i| heap.boxed(Wide(i)).ok().unwrap()).collect();
    for (i, wide) in boxes.iter().enumerate() {
        assert_eq!((&**wide as *const Wide as usize % 256, wide.0 as usize), (0, i));
    }
}

#[test]
fn a_limit_holds_and_gives_the_value_back() {
    let heap = Heap::with_config(HeapConfig { name: "limited", limit_bytes: 1 << 20 }).unwrap();
    let mut boxes = Vec::new();
    let refused = loop {
        match heap.boxed([boxes.len(); 1000]) {
            Ok(boxed) => boxes.push(boxed),
            Err(value) => break value,
        }
    };
    assert!(boxes.len() > 60 && boxes.len() < 131, "{} boxes of 8,000 bytes in 1 MiB", boxes.len());
    assert!(refused.iter().all(|&n| n == boxes.len()));
    assert!(boxes.iter().enumerate().all(|(i, values)| values.iter().all(|&n| n == i)));
    boxes.clear();
    assert!(heap.boxed([0usize; 1000]).is_ok());
}

#[test]
fn resets_and_drops_end_everything() {
    let mut heap = Heap::new().unwrap();
    for _ in 0..3 {
        for i in 0..1000usize {
            std::mem::forget(heap.boxed([i; 20]).unwrap());
        }
        assert_eq!(heap.stats().live_count, 1000);
        heap.reset();
        assert_eq!(heap.stats().live_count, 0);
    }
    // Other tests hold something meanwhile, most of all what prints a backtrace.
    let before = heddle::stats().live;
    for i in 0..400_000usize {
        std::mem::forget(heap.boxed([i; 20]).unwrap());
    }
    assert!(heddle::stats().live > before + 50_000_000);
    drop(heap);
    assert!(heddle::stats().live < before + 30_000_000);
}

#[test]
fn raw_blocks() {
    let heap = Heap::new().unwrap();
    unsafe {
        for align in [1, 16, 64, 4096] {
            for bytes in [1usize, 100, 5000, 100_000] {
                let layout = Layout::from_size_align(bytes, align).unwrap();
                let dirty = heap.alloc(layout);
                dirty.write_bytes(0xFF, bytes);
                heap.dealloc(dirty, layout);
                let block = heap.alloc_zeroed(layout);
                assert!(block as usize % align == 0 && std::slice::from_raw_parts(block, bytes).iter().all(|&byte| byte == 0));
                block.write_bytes(3, bytes);
                let grown = heap.realloc(block, layout, bytes * 4);
                assert!(grown as usize % align == 0 && std::slice::from_raw_parts(grown, bytes).iter().all(|&byte| byte == 3));
                assert!(heap.contains(grown));
                heap.dealloc(grown, Layout::from_size_align(bytes * 4, align).unwrap());
            }
        }
    }
    assert_eq!(heap.stats().live_count, 0);
}

#[test]
fn threads_share_a_heap() {
    let heap = Heap::new().unwrap();
    thread::scope(|scope| {
        for t in 0..4u64 {
            let heap = &heap;
            scope.spawn(move || {
                for i in 0..2_000 {
                    let boxed = heap.boxed([t * 10_000 + i; 8]).unwrap();
                    let boxed = if i % 50 == 0 { thread::scope(|inner| inner.spawn(move || boxed).join().unwrap()) } else { boxed };
                    assert!(boxed.iter().all(|&n| n == t * 10_000 + i));
                }
            });
        }
    });
    assert_eq!(heap.stats().live_count, 0);
}

#[test]
fn names() {
    assert!(Heap::with_config(HeapConfig { name: "a name of exactly thirty-one by", limit_bytes: 0 }).is_some());
    assert!(Heap::with_config(HeapConfig { name: "a name that is longer than thirty-one bytes", limit_bytes: 0 }).is_none());
    assert!(Heap::with_config(HeapConfig { name: "zero\0", limit_bytes: 0 }).is_none());
}
