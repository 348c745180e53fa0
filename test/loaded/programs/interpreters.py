"""perl, Lua, PHP and ruby: hashes, strings, closures, regular expressions, threads; each prints a checksum.

SPDX-License-Identifier: MIT
"""
from harness.program import Program


def script(program, name, rounds):
    def run(place):
        done = place.run(program, place.input / name, place.times(rounds))
        return {"out": done.out, "err": done.err, "said": bool(done.out)}

    return run


PROGRAMS = [
    Program("perl", "perl: hashes, regular expressions, sorting", script("perl", "words.pl", 4), {"perl": "perl"}, short=True),
    Program("lua", "lua5.4: tables, strings, closures, coroutines", script("lua5.4", "tables.lua", 6), {"lua5.4": "lua5.4"}, short=True),
    # It loads its extensions with RTLD_DEEPBIND.
    Program("php", "php: arrays, strings, regular expressions, extensions", script("php", "words.php", 8), {"php": "php-cli"}, short=True),
    Program("ruby", "ruby: objects, strings, threads, fork, compaction", script("ruby", "objects.rb", 4), {"ruby": "ruby"}),
]
