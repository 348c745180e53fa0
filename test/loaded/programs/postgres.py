"""PostgreSQL: pgbench with data checksums, parallel queries, a crash and its recovery, pg_amcheck and pg_checksums at the end.

The sum of what pgbench did is fixed by its seed and the number of transactions, however its clients interleave.

SPDX-License-Identifier: MIT
"""
import os
import pathlib
import signal

from harness.place import digest
from harness.program import Failed, Program

USER = "postgres"
CONFIG = """listen_addresses = '127.0.0.1'
port = {port}
unix_socket_directories = '{folder}'
shared_buffers = 64MB
work_mem = 1MB
maintenance_work_mem = 8MB
max_wal_size = 128MB
checkpoint_timeout = 30s
autovacuum_naptime = 1s
max_parallel_workers_per_gather = 2
min_parallel_table_scan_size = 0
parallel_setup_cost = 0
parallel_tuple_cost = 0
fsync = off
shared_memory_type = mmap
"""


def programs():
    """The newest server's own directory (Debian keeps it off the PATH)."""
    return max(pathlib.Path("/usr/lib/postgresql").glob("*/bin"), key=lambda path: int(path.parent.name))


def start(place, data):
    process = place.start(programs() / "postgres", "-D", data, user=USER)
    place.wait_for(process, lambda: place.run(programs() / "pg_isready", "-h", place.folder, "-q", *place.at, expect=None).code == 0, "postgres")
    return process


def query(place, sql):
    return place.run(programs() / "psql", "-X", "-q", "-A", "-t", "-v", "ON_ERROR_STOP=1", "-h", place.folder, *place.at, "-U", USER, "-f", "-",
                     "postgres", stdin=sql).out


def bench(place, *words):
    done = place.run(programs() / "pgbench", "-h", place.folder, *place.at, "-U", USER, *words, "postgres")
    if "number of failed transactions: 0" not in done.out and "-i" not in words:
        raise Failed(f"pgbench: {done.out[-400:]}")
    return done


def run(place):
    if os.getuid() == 0:
        place.give_to(USER)
    port, data = place.port(), place.folder / "data"
    place.at = ("-p", str(port))
    place.run(programs() / "initdb", "-k", "-D", data, "-U", USER, "-A", "trust", "--locale=C", "-E", "UTF8", user=USER)
    (data / "postgresql.conf").write_text(CONFIG.format(port=port, folder=place.folder))
    process = start(place, data)
    bench(place, "-i", "-q", "-s", 2, "-I", "dtgvpf")
    count = place.times(400, least=20)
    for mode in ("simple", "prepared"):
        bench(place, "-n", "-c", 6, "-j", 2, "-t", count, "--random-seed", 7, "-M", mode)
    bench(place, "-n", "-C", "-c", 4, "-t", max(10, count // 20), "--random-seed", 8)  # a process a transaction
    answers = query(place, (place.input / "queries.sql").read_text())
    place.stop(process, signal.SIGQUIT, expect=None, processes=0)  # as after a crash: the log is replayed
    process = start(place, data)
    totals = query(place, (place.input / "totals.sql").read_text())
    place.run(programs() / "pg_amcheck", "-h", place.folder, *place.at, "-U", USER, "--all", "--install-missing", "--heapallindexed",
              "--parent-check")
    dump = place.run(programs() / "pg_dump", "-h", place.folder, *place.at, "-U", USER, "-t", "pgbench_accounts", "--inserts", "postgres").out
    place.stop(process, signal.SIGINT, processes=2)
    checks = place.run(programs() / "pg_checksums", "--check", "-D", data, user=USER).out
    bad = [line for line in checks.splitlines() if line.startswith("Bad checksums:")]
    return {"totals": totals, "queries": digest(answers), "query_bytes": len(answers), "checksums": bad, "dump_lines": dump.count("INSERT INTO")}


PROGRAMS = [
    Program("postgres", "PostgreSQL: pgbench, checksums, recovery, amcheck", run,
            {"/usr/lib/postgresql/*/bin/postgres": "postgresql-15", "/usr/lib/postgresql/*/bin/pgbench": "postgresql-15"},
            mapped=("postgres",), seconds=240),
]
