"""Where a program runs: a folder, an environment with or without Heddle, and the processes it starts.

Heddle prints its statistics when a process ends; they are taken out of what the program wrote, and prove that the heap was
in use there. A process that has to keep its own silence is started with stats=False and watched from outside instead.

SPDX-License-Identifier: MIT
"""
import hashlib
import json
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import time
from dataclasses import dataclass

from harness.program import Failed, Void

HERE = pathlib.Path(__file__).resolve().parent.parent
SETTINGS = {"LC_ALL": "C.UTF-8", "TZ": "UTC", "PATH": "/usr/local/bin:/usr/bin:/bin:/usr/local/sbin:/usr/sbin:/sbin"}


@dataclass
class Done:
    """How a command ended; err without the statistics."""

    code: int
    out: str
    err: str
    raw: bytes


def digest(*parts):
    """One short name for any amount of output, text, bytes or files."""
    sum_ = hashlib.sha256()
    for part in parts:
        if isinstance(part, pathlib.Path):
            part = part.read_bytes()
        sum_.update(part.encode() if isinstance(part, str) else part)
    return sum_.hexdigest()[:24]


def split_statistics(text):
    """(what the program wrote, how many processes of it reported live blocks)"""
    kept, proofs = [], 0
    for line in text.splitlines(keepends=True):
        if line.startswith('{"heddle":'):
            proofs += json.loads(line)["live_count"] > 0
        else:
            kept.append(line)
    return "".join(kept), proofs


def check_complaints(text, where):
    """A report of Heddle in a program that ran well without it is a failure, whatever the results."""
    for line in text.splitlines():
        if line.startswith("heddle:"):
            raise Failed(f"{where}: {line}")


class Place:
    def __init__(self, folder, shared, library=None, options="", scale=1.0, prove=True):
        self.folder, self.shared, self.input = pathlib.Path(folder), pathlib.Path(shared), HERE / "input"
        self.preload, self.options, self.scale, self.prove = library, options, scale, prove
        self.proofs, self.notes, self.logs = 0, [], []

    # ---- sizes, names ---------------------------------------------------------------------------------------------------

    def times(self, count, least=1):
        """A count of the load at scale 1, at the scale asked for."""
        return max(least, round(count * self.scale))

    def port(self):
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            return probe.getsockname()[1]

    def write(self, name, text):
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return path

    def give_to(self, user):
        """Make the folder that user's, for servers that refuse to run as root."""
        shutil.chown(self.folder, user, user)

    def environment(self, stats, more):
        clean = SETTINGS | {"HOME": str(self.folder), "TMPDIR": str(self.folder)}
        if self.preload:
            clean["LD_PRELOAD"] = str(self.preload)
            options = ",".join(part for part in (self.options, "stats:json" if stats and self.prove else "") if part)
            if options:
                clean["HEDDLE"] = options
        return clean | {name: str(value) for name, value in more.items()}

    # ---- a command that ends ----------------------------------------------------------------------------------------------

    def run(self, *argv, expect=0, stats=True, env=None, cwd=None, stdin=None, user=None, timeout=900):
        """Run to the end. expect: its exit code, or None for any; stats: whether its processes print statistics at exit."""
        argv = [str(word) for word in argv]
        with self.input_of(stdin) as source:
            done = subprocess.run(argv, env=self.environment(stats, env or {}), cwd=cwd or self.folder, stdin=source,
                                  capture_output=True, timeout=timeout, **as_user(user))
        err, proofs = split_statistics(done.stderr.decode(errors="replace"))
        result = Done(done.returncode, done.stdout.decode(errors="replace"), err, done.stdout)
        check_complaints(err, argv[0])
        if expect is not None and result.code != expect:
            raise Failed(f"{' '.join(argv)[:200]}: ended with {result.code}: {(err or result.out)[-600:]}")
        self.count(argv[0], proofs, wanted=1 if stats else 0)
        return result

    def input_of(self, stdin):
        if isinstance(stdin, pathlib.Path):
            return open(stdin, "rb")
        if stdin is not None:
            path = self.folder / ".stdin"
            path.write_bytes(stdin if isinstance(stdin, bytes) else stdin.encode())
            return open(path, "rb")
        return open(os.devnull, "rb")

    def count(self, name, proofs, wanted):
        self.proofs += proofs
        if self.preload and self.prove and proofs < wanted:
            raise Void(f"{name}: {proofs} of {wanted} statistics at exit; Heddle was not in use")
        if not self.preload and proofs:
            raise Void(f"{name}: Heddle was in use in the control")

    # ---- a server -----------------------------------------------------------------------------------------------------------

    def start(self, *argv, stats=True, env=None, user=None):
        """Start a server; what it writes goes to a log."""
        argv = [str(word) for word in argv]
        log = self.folder / f"{os.path.basename(argv[0])}.{len(self.logs)}.log"
        self.logs.append(log)
        with open(log, "wb") as out:
            process = subprocess.Popen(argv, env=self.environment(stats, env or {}), cwd=self.folder, stdin=subprocess.DEVNULL,
                                       stdout=out, stderr=out, **as_user(user))
        process.log, process.stats = log, stats
        return process

    def wait_for(self, process, ready, what, seconds=60):
        """Wait until ready() is true; OSErrors mean not yet."""
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            if process.poll() is not None:
                break
            try:
                if ready():
                    return
            except OSError:
                pass
            time.sleep(0.03)
        raise Failed(f"{what}: no answer; {process.log.read_text(errors='replace')[-600:]}")

    def stop(self, process, number=signal.SIGTERM, expect=0, processes=1, seconds=120):
        """End a server. processes: how many of it must have printed statistics. Returns its log without them."""
        if process.poll() is not None:
            raise Failed(f"{process.args[0]} died with {process.returncode}: {process.log.read_text(errors='replace')[-600:]}")
        process.send_signal(number)
        code = process.wait(seconds)
        text, proofs = split_statistics(process.log.read_text(errors="replace"))
        check_complaints(text, process.args[0])
        if expect is not None and code != expect:
            raise Failed(f"{process.args[0]}: ended with {code}: {text[-600:]}")
        self.count(process.args[0], proofs, wanted=processes if process.stats else 0)
        return text


def as_user(user):
    """Arguments of Popen that make the process somebody else's, with that user's groups alone."""
    return {"user": user, "group": user, "extra_groups": []} if user and os.getuid() == 0 else {}
