"""redis: a dataset of every type, snapshots by forked children while redis-benchmark writes, and the dump loaded again.

SPDX-License-Identifier: MIT
"""
import threading
import time

from harness.place import digest
from harness.program import Failed, Program
from harness.resp import Client

KINDS = 7


def fill(client, count):
    """The dataset that is compared: strings, lists, sets, hashes, sorted sets, streams, big values. No random numbers."""
    for i in range(count):
        client.send("SET", f"s{i}", "v" * (i * 7919 % 700))
        client.send("RPUSH", f"l{i % (count // 20 + 1)}", *(f"{i}-{n}" * (n % 5) for n in range(8)))
        client.send("SADD", f"u{i % 97}", f"m{i * 31 % 4099}")
        client.send("HSET", f"h{i % 211}", f"f{i % 1009}", "w" * (i % 90))
        client.send("ZADD", f"z{i % 53}", str(i * 37 % 10007), f"e{i}")
        client.send("XADD", f"x{i % 11}", f"{i + 1}-1", "field", str(i) * 3)
        client.send("APPEND", f"b{i % 5}", "0123456789abcdef" * (i % 60))
    client.collect(count * KINDS)
    for i in range(0, count, 3):  # holes between what stays
        client.send("DEL", f"s{i}")
        client.send("LTRIM", f"l{i % (count // 20 + 1)}", "1", "-2")
    client.collect(2 * len(range(0, count, 3)))


def snapshot(client):
    client.say("BGSAVE")
    for _ in range(3000):
        state = client.say("INFO", "persistence")
        if b"rdb_bgsave_in_progress:0" in state:
            if b"rdb_last_bgsave_status:ok" not in state:
                raise Failed("BGSAVE: the child failed")
            return
        time.sleep(0.02)
    raise Failed("BGSAVE: the child did not end")


def server(place, port):
    process = place.start("redis-server", "--port", port, "--bind", "127.0.0.1", "--save", "", "--appendonly", "no", "--dir", place.folder,
                          "--enable-debug-command", "yes", "--maxmemory", "1gb", *(("--io-threads", "2") if place.scale >= 1 else ()))
    place.wait_for(process, lambda: Client(port).say("PING") == b"PONG", "redis-server")
    return process, Client(port)


def under_load(place, port, client):
    """Snapshots and reloads of single values while the benchmark keeps all of database 1 moving."""
    outcome = {}

    def bench():
        try:
            outcome["done"] = place.run("redis-benchmark", "-p", port, "-n", place.times(30000), "-c", 20, "-q", "-d", 400, "-r", 20000,
                                         "--dbnum", 1, "-t", "set,get,incr,lpush,rpop,sadd,hset,spop,zadd,zpopmin,mset")
        except Exception as problem:
            outcome["problem"] = problem

    thread = threading.Thread(target=bench)
    thread.start()
    snapshots = 0
    while thread.is_alive() or snapshots == 0:
        snapshot(client)
        snapshots += 1
        time.sleep(0.1)
    thread.join()
    if "problem" in outcome:
        raise outcome["problem"]
    return outcome["done"].out.count("requests per second"), snapshots


def run(place):
    port = place.port()
    process, client = server(place, port)
    fill(client, place.times(6000))
    before = client.say("DEBUG", "DIGEST")
    tests, snapshots = under_load(place, port, client)
    place.notes.append(f"{snapshots} snapshots under load")
    client.say("SELECT", "1")
    client.say("FLUSHDB")
    client.say("SELECT", "0")
    if client.say("DEBUG", "DIGEST") != before:
        raise Failed("the dataset changed under load of another database")
    snapshot(client)
    client.say("DEBUG", "RELOAD")
    if client.say("DEBUG", "DIGEST") != before:
        raise Failed("the dataset changed in DEBUG RELOAD")
    client.say("BGREWRITEAOF")
    client.close()
    place.stop(process)
    process, client = server(place, port)
    after, size = client.say("DEBUG", "DIGEST"), int(client.say("DBSIZE"))
    # A hash table's order is random in every process.
    sample = client.say("LRANGE", "l3", "0", "-1"), sorted(client.say("HGETALL", "h7")), client.say("XRANGE", "x3", "-", "+")
    client.close()
    place.stop(process)
    if after != before:
        raise Failed("the dataset is another one after the dump was loaded")
    check = place.run("redis-check-rdb", place.folder / "dump.rdb")
    return {"digest": before.decode(), "keys": size, "sample": digest(repr(sample)), "bench": tests,
            "dump": "RDB looks OK" in check.out or check.out[-300:]}


PROGRAMS = [
    Program("redis", "redis-server: BGSAVE under redis-benchmark, dump loaded again", run,
            {"redis-server": "redis-server", "redis-benchmark": "redis-tools", "redis-check-rdb": "redis-tools"},
            mapped=("redis-server",), short=True),
]
