"""The shell and a dozen small programs in pipelines, with the preload handed down.

SPDX-License-Identifier: MIT
"""
from harness.program import Program

SCRIPT = """sort -n data | uniq -c | sort -rn | head -50
sort --parallel=4 -S 1M data | md5sum
gzip -9 -c data | gunzip | md5sum
tar cf - data | wc -c
grep -c '99 x' data
awk '{s += $1; n[$1 % 100] = n[$1 % 100] $2} END {print s, length(n[7])}' data
sed 's/x/yy/g' data | md5sum
diff data data && echo same
join <(sort -u data) <(sort -u data | head -500) | md5sum
a=(); for i in {1..3000}; do a+=($i$i); done; echo ${#a[@]}
xargs -n 50 -P 4 echo < data | wc -w"""


def run(place):
    place.write("data", "".join(f"{i * 7919 % 10007} {'x' * (i % 90)}\n" for i in range(place.times(60000, least=20000))))
    done = place.run("bash", "-c", SCRIPT, env={"LC_ALL": "C"})
    return {"out": done.out, "err": done.err}


PROGRAMS = [Program("shell", "bash, sort, gzip, tar, awk, sed, grep, diff, join, xargs", run, {"bash": "bash", "awk": "mawk"}, short=True)]
