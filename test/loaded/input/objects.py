"""A deterministic python3 script: dictionaries, strings, threads, sorting, json, pickling, children. Prints a digest a round.

usage: objects.py [ROUNDS]
"""
import hashlib
import json
import multiprocessing
import pickle
import random
import sys
import threading


def rows(at):
    """The digest of many byte strings of many sizes."""
    made = [bytes([at % 256]) * (i * 37 % 9000) for i in range(1000)]
    made.sort(key=len)
    return hashlib.sha256(b"".join(made)).hexdigest()


def round_of(seed, pool):
    random.seed(seed)
    words = ["".join(random.choice("abcdefgh") for _ in range(random.randint(1, 40))) for _ in range(20000)]
    counts = {}
    for word in words:
        counts[word[:3]] = counts.get(word[:3], 0) + len(word)
    tree = {str(i): {"list": list(range(i % 50)), "text": "x" * (i * 13 % 5000)} for i in range(2000)}
    results = [None] * 8

    def work(at):
        results[at] = rows(seed * 8 + at)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(8)]
    for thread in threads:
        thread.start()
    children = pool.map(rows, range(seed, seed + 6))
    for thread in threads:
        thread.join()
    again = pickle.loads(pickle.dumps(tree))
    text = json.dumps([sorted(counts.items()), again, results, children], sort_keys=True)
    return f"{hashlib.sha256(text.encode()).hexdigest()} {len(text)}"


def main():
    with multiprocessing.get_context("fork").Pool(2) as pool:
        for seed in range(int(sys.argv[1]) if len(sys.argv) > 1 else 1):
            print(round_of(seed, pool))
        pool.close()
        pool.join()


if __name__ == "__main__":
    main()
