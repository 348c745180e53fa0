//! The standard collections in heaps and arenas; nightly's allocator_api.
#![feature(allocator_api)]
use heddle::{Arena, Heap, Heddle};
use std::collections::VecDeque;

#[test]
fn in_the_common_memory() {
    let mut numbers = Vec::new_in(Heddle);
    numbers.extend(0..100_000);
    assert!(heddle::owns(numbers.as_ptr()) && numbers[99_999] == 99_999);
    numbers.truncate(10);
    numbers.shrink_to_fit();
    assert_eq!(numbers, (0..10).collect::<Vec<_>>());
    numbers.clear();
    numbers.shrink_to_fit();
    numbers.push(1);
    assert_eq!(*Box::new_in(7, Heddle), 7);
}

#[test]
fn in_a_heap() {
    let heap = Heap::new().unwrap();
    {
        let mut queue = VecDeque::new_in(&heap);
        queue.extend(0..10_000u32);
        while queue.len() > 5 {
            queue.pop_front();
        }
        queue.shrink_to_fit();
        assert_eq!(queue.iter().copied().collect::<Vec<_>>(), [9995, 9996, 9997, 9998, 9999]);
        let mut boxes = Vec::new_in(&heap);
        for i in 0..1000 {
            boxes.push(Box::new_in([i; 10], &heap));
        }
        assert!(boxes.iter().enumerate().all(|(i, values)| values.iter().all(|&value| value == i)));
        assert!(heap.stats().live_count > 1000);
    }
    assert_eq!(heap.stats().live_count, 0);
}

#[test]
fn in_an_arena() {
    let arena = Arena::new().unwrap();
    let mut numbers = Vec::new_in(&arena);
    numbers.extend(0..10_000u32);
    assert!(arena.contains(numbers.as_ptr()) && numbers.iter().sum::<u32>() == 49_995_000);
    let before = arena.used();
    assert!(before < 100_000, "the last block grows where it lies: {}", before);
    drop(numbers);
}
