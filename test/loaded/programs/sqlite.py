"""sqlite3: tables in memory, and a database file with WAL, full text and JSON, checked at the end.

SPDX-License-Identifier: MIT
"""
from harness.place import digest
from harness.program import Failed, Program


def run(place):
    rows = place.run("sqlite3", ":memory:", "-batch", stdin=place.input / "rows.sql").out
    database = place.folder / "texts.db"
    script = (place.input / "texts.sql").read_text().replace(":rows", str(place.times(40000)))
    texts = place.run("sqlite3", database, "-batch", stdin=script).out
    dump = place.run("sqlite3", database, ".dump").out
    check = place.run("sqlite3", database, "PRAGMA integrity_check; PRAGMA foreign_key_check;").out
    if check != "ok\n":
        raise Failed(f"sqlite3: {check[-400:]}")
    again = place.run("sqlite3", place.folder / "again.db", "-batch", stdin=dump)
    place.run("sqlite3", place.folder / "again.db", "VACUUM INTO 'small.db'")
    return {"rows": rows, "texts": texts, "dump": digest(dump), "again": again.out, "file": digest(place.folder / "small.db")}


PROGRAMS = [Program("sqlite", "sqlite3: joins, WAL, full text, JSON, dump, vacuum", run, {"sqlite3": "sqlite3"}, short=True)]
