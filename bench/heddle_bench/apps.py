"""What talks to the real programs while they run."""

import subprocess
import time


def redis(tmp):
    """Load the server that listens on tmp/redis.sock with a bounded number of requests, then have it shut down."""
    sock = tmp / "redis.sock"
    deadline = time.monotonic() + 10
    while not sock.exists():
        if time.monotonic() > deadline:
            raise RuntimeError("redis-server did not come up in 10 s")
        time.sleep(0.01)
    try:
        done = subprocess.run(
            [
                "redis-benchmark",
                "-s",
                str(sock),
                "-q",
                "-n",
                "60000",
                "-r",
                "50000",
                "-d",
                "200",
                "-c",
                "20",
                "-P",
                "8",
                "-t",
                "set,get,lpush,hset,zadd",
            ],
            capture_output=True,
            text=True,
            timeout=60,
        )
        if done.returncode:
            raise RuntimeError("redis-benchmark failed: " + (done.stderr.strip().splitlines() or ["no message"])[-1])
    finally:
        subprocess.run(["redis-cli", "-s", str(sock), "shutdown", "nosave"], capture_output=True, timeout=20)
        sock.unlink(missing_ok=True)
