//! Counts words in threads, on Heddle, and says where its memory is.
//!   cargo run --release --example words [FILE...]
use std::collections::HashMap;
use std::thread;

#[global_allocator]
static ALLOCATOR: heddle::Heddle = heddle::Heddle;

fn count(path: &str) -> HashMap<String, u32> {
    let text = std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {}", path, error));
    let mut counts = HashMap::new();
    for word in text.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty()) {
        *counts.entry(word.to_lowercase()).or_insert(0) += 1;
    }
    counts
}

fn main() {
    let mut paths: Vec<String> = std::env::args().skip(1).collect();
    if paths.is_empty() {
        paths.push(concat!(env!("CARGO_MANIFEST_DIR"), "/examples/words.rs").into());
    }
    let threads: Vec<_> = paths.into_iter().map(|path| thread::spawn(move || count(&path))).collect();
    let mut total: HashMap<String, u32> = HashMap::new();
    for thread in threads {
        for (word, count) in thread.join().expect("a file could not be read") {
            *total.entry(word).or_insert(0) += count;
        }
    }
    let mut sorted: Vec<_> = total.iter().collect();
    sorted.sort_by_key(|&(word, count)| (std::cmp::Reverse(count), word));
    for (word, count) in sorted.iter().take(5) {
        println!("{:7} {}", count, word);
    }
    let stats = heddle::stats();
    println!("{} blocks, {} bytes, in Heddle {}", stats.live_count, stats.live, heddle::version());
}
