"""Objects, strings, dicts and JSON, as a small data job makes them."""
import json

rows = [{"id": i, "name": f"name-{i * 7919 % 10007}", "tags": [str(i % k) for k in range(1, 8)], "score": i * 0.5} for i in range(40000)]
text = json.dumps(rows)
back = json.loads(text)
assert back == rows
groups = {}
for row in back:
    groups.setdefault(row["name"], []).append(row)
names = sorted(groups)
joined = "".join(names[i % len(names)] for i in range(200000))
words = [line.split("-") for line in "\n".join(r["name"] for r in rows).split("\n")]
assert len(words) == len(rows) and joined
big = 1
for i in range(1, 1500):
    big *= i
assert len(str(big % 10**3000)) > 0
