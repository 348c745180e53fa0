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


class Cluster:
    """A data directory and the programs that work on it."""

    def __init__(self, place):
        self.place, self.port, self.data, self.process = place, place.port(), place.folder / "data", None
        # The newest server's own directory; Debian keeps it off the PATH.
        self.programs = max(pathlib.Path("/usr/lib/postgresql").glob("*/bin"), key=lambda path: int(path.parent.name))

    def owner(self, name, *words):
        """A program that works on the files, as the user they belong to."""
        return self.place.run(self.programs / name, "-D", self.data, *words, user=USER).out

    def client(self, name, *words, **more):
        return self.place.run(self.programs / name, "-h", self.place.folder, "-p", self.port, "-U", USER, *words, **more)

    def start(self):
        self.process = self.place.start(self.programs / "postgres", "-D", self.data, user=USER)
        self.place.wait_for(self.process, lambda: self.client("pg_isready", "-q", expect=None).code == 0, "postgres")

    def query(self, name):
        return self.client("psql", "-X", "-q", "-A", "-t", "-v", "ON_ERROR_STOP=1", "-f", self.place.input / name, "postgres").out

    def bench(self, *words):
        done = self.client("pgbench", *words, "postgres")
        if "number of failed transactions: 0" not in done.out and "-i" not in words:
            raise Failed(f"pgbench: {done.out[-400:]}")


def load(place, cluster):
    cluster.bench("-i", "-q", "-s", 2, "-I", "dtgvpf")
    count = place.times(400, least=20)
    for mode in ("simple", "prepared"):
        cluster.bench("-n", "-c", 6, "-j", 2, "-t", count, "--random-seed", 7, "-M", mode)
    cluster.bench("-n", "-C", "-c", 4, "-t", max(10, count // 20), "--random-seed", 8)  # a process a transaction


def run(place):
    if os.getuid() == 0:
        place.give_to(USER)
    cluster = Cluster(place)
    cluster.owner("initdb", "-k", "-U", USER, "-A", "trust", "--locale=C", "-E", "UTF8")
    (cluster.data / "postgresql.conf").write_text(CONFIG.format(port=cluster.port, folder=place.folder))
    cluster.start()
    load(place, cluster)
    answers = cluster.query("queries.sql")
    place.stop(cluster.process, signal.SIGQUIT, expect=None, processes=0)  # as after a crash: the log is replayed
    cluster.start()
    totals = cluster.query("totals.sql")
    cluster.client("pg_amcheck", "--all", "--install-missing", "--heapallindexed", "--parent-check")
    dump = cluster.client("pg_dump", "-t", "pgbench_accounts", "--inserts", "postgres").out
    place.stop(cluster.process, signal.SIGINT, processes=2)
    bad = [line for line in cluster.owner("pg_checksums", "--check").splitlines() if line.startswith("Bad checksums:")]
    return {"totals": totals, "queries": digest(answers), "query_bytes": len(answers), "checksums": bad,
            "dump_lines": dump.count("INSERT INTO")}


PROGRAMS = [
    Program("postgres", "PostgreSQL: pgbench, checksums, recovery, amcheck", run,
            {"/usr/lib/postgresql/*/bin/postgres": "postgresql-15", "/usr/lib/postgresql/*/bin/pgbench": "postgresql-15"},
            mapped=("postgres",), seconds=600),
]
