"""A deterministic python3 script: dictionaries, strings, threads, sorting, json, pickling. Prints a digest."""
import hashlib
import json
import pickle
import random
import threading

random.seed(7)
words = ["".join(random.choice("abcdefgh") for _ in range(random.randint(1, 40))) for _ in range(30000)]
counts = {}
for word in words:
    counts[word[:3]] = counts.get(word[:3], 0) + len(word)
tree = {str(i): {"list": list(range(i % 50)), "text": "x" * (i * 13 % 5000)} for i in range(3000)}
results = [None] * 8


def work(at):
    rows = [bytes([at]) * (i * 37 % 9000) for i in range(2000)]
    rows.sort(key=len)
    results[at] = hashlib.sha256(b"".join(rows)).hexdigest()


threads = [threading.Thread(target=work, args=(i,)) for i in range(8)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
again = pickle.loads(pickle.dumps(tree))
text = json.dumps([sorted(counts.items()), again, results], sort_keys=True)
print(hashlib.sha256(text.encode()).hexdigest(), len(text))
