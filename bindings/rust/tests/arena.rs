//! Arenas.
use heddle::Arena;
use std::alloc::Layout;

#[test]
fn values_lie_in_it() {
    let mut arena = Arena::new().unwrap();
    for round in 0..5 {
        let numbers: Vec<&mut u64> = (0..10_000).map(|i| arena.alloc(i * round)).collect();
        assert!(numbers.iter().enumerate().all(|(i, number)| **number == i as u64 * round && arena.contains(*number as *const u64)));
        let words: Vec<&str> = ["it", "is", "", "Heddle's"].iter().map(|word| arena.alloc_str(word)).collect();
        assert_eq!(words.join(" "), "it is  Heddle's");
        let slice = arena.alloc_slice(&[1u16, 2, 3]);
        slice[0] = 9;
        assert_eq!(slice, [9, 2, 3]);
        assert!(arena.used() >= 80_000);
        arena.reset();
        assert_eq!(arena.used(), 0);
    }
    assert!(!arena.contains(&arena as *const Arena));
}

#[test]
fn alignments() {
    let arena = Arena::new().unwrap();
    for power in 0..=16 {
        let layout = Layout::from_size_align(3, 1 << power).unwrap();
        assert_eq!(arena.try_alloc_layout(layout).unwrap().as_ptr() as usize % (1 << power), 0);
    }
    #[repr(align(128))]
    struct Wide(u8);
    arena.alloc(1u8);
    assert_eq!(arena.alloc(Wide(7)) as *mut Wide as usize % 128, 0);
    assert_eq!(arena.alloc(Wide(7)).0, 7);
}

#[test]
fn nothing_takes_nothing() {
    let arena = Arena::new().unwrap();
    arena.alloc(());
    assert!(arena.alloc_slice::<u64>(&[]).is_empty());
    assert_eq!(arena.used(), 0);
}

#[test]
fn a_fixed_one_ends() {
    let mut arena = Arena::with_capacity(1 << 20).unwrap();
    let mut count = 0u64;
    while let Some(value) = arena.try_alloc([count; 512]) {
        assert_eq!(value[511], count);
        count += 1;
    }
    assert!((250..=256).contains(&count), "{} values of 4 KiB in 1 MiB", count);
    assert!(arena.try_alloc_slice(&[0u8; 8192]).is_none());
    let full = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| arena.alloc([0u8; 8192])[0]));
    assert!(full.is_err());
    arena.reset();
    assert!(arena.try_alloc([0u64; 512]).is_some());
    assert!(Arena::with_capacity(usize::MAX).is_none());
}

#[test]
fn moves_between_threads() {
    let arena = Arena::new().unwrap();
    arena.alloc_str("before");
    let arena = std::thread::spawn(move || {
        arena.alloc_str("in between");
        arena
    });
    let arena = arena.join().unwrap();
    assert_eq!(arena.alloc_str("after"), "after");
    assert!(format!("{:?}", arena).contains("used"));
}
