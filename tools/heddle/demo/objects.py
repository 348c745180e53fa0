"""Objects with attributes, dictionaries, text and a graph that the cycle collector must find; checks its results."""

import re
import sys


class Random:
    """A generator of our own, so that every Python version draws the same numbers."""

    def __init__(self, seed):
        self.state = seed

    def below(self, limit):
        self.state = (self.state * 6364136223846793005 + 1442695040888963407) % 2 ** 64
        return (self.state >> 33) % limit


class Order:
    def __init__(self, number, customer, items):
        self.number, self.customer, self.items = number, customer, items
        self.note = f"order {number} of customer {customer} with {len(items)} items"


class Node:
    def __init__(self, name):
        self.name, self.links = name, []


def check(what, got, expected):
    if got != expected:
        sys.exit(f"{what}: got {got}, expected {expected}")


def orders(random, count):
    """Records that are made, grouped, changed and partly dropped."""
    made = [Order(n, random.below(500), [f"item-{random.below(3000)}" for _ in range(n % 9)]) for n in range(count)]
    groups = {}
    for order in made:
        groups.setdefault(order.customer, []).append(order)
    check("orders", sum(len(group) for group in groups.values()), count)
    for group in groups.values():
        del group[::2]
    check("items", sum(len(order.items) for order in made), sum(n % 9 for n in range(count)))
    return groups


def text(random, count):
    """Long texts cut into words and counted; blocks far larger than Python's own small-object pools."""
    words = [f"w{random.below(4000):04d}" * (1 + random.below(3)) for _ in range(count)]
    joined = " ".join(words)
    counts = {}
    for word in re.findall(r"\w+", joined):
        counts[word] = counts.get(word, 0) + 1
    check("words", sum(counts.values()), count)
    replaced = joined.replace("w0", "word-zero-")
    check("back", replaced.replace("word-zero-", "w0") == joined, True)
    return counts


def buffers(random, count):
    """Byte arrays of a few hundred bytes to 64 KiB that grow step by step and live for a while."""
    live, total = [], 0
    for _ in range(count):
        block = bytearray(b"x" * (600 + random.below(2000)))
        for _ in range(5):
            block += block[: 500 + random.below(4000)]
        total += len(block)
        live.append((len(block), bytes(block)))
        if len(live) > 600:
            size, kept = live.pop(random.below(600))
            check("buffer", len(kept), size)
    check("all bytes", total > 0, True)


def graph(random, count):
    nodes = [Node(f"node-{n}") for n in range(count)]
    for node in nodes:
        node.links = [nodes[random.below(count)] for _ in range(4)]
    check("links", sum(len(node.links) for node in nodes), 4 * count)


def main():
    random = Random(77)
    for _ in range(2):
        orders(random, 30_000)
        text(random, 60_000)
        buffers(random, 6_000)
        graph(random, 20_000)
    print("python ok")


main()
