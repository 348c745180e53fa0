"""A small client of redis's protocol, with pipelining.

SPDX-License-Identifier: MIT
"""
import socket

from harness.program import Failed

BATCH = 1 << 18  # bytes that wait before they are sent


class Client:
    def __init__(self, port):
        self.link = socket.create_connection(("127.0.0.1", port), 60)
        self.lines, self.waiting, self.bytes, self.due, self.answers = self.link.makefile("rb"), [], 0, 0, 0

    def send(self, *words):
        """Queue a command; collect() must follow."""
        data = [word.encode() for word in words]
        self.waiting.append(b"*%d\r\n" % len(data) + b"".join(b"$%d\r\n%b\r\n" % (len(word), word) for word in data))
        self.bytes += len(self.waiting[-1])
        self.due += 1
        if self.bytes > BATCH:
            self.flush()

    def flush(self):
        """Send and read what is due, so that neither side's buffers fill up."""
        self.link.sendall(b"".join(self.waiting))
        for _ in range(self.due):
            self.read()
        self.answers += self.due
        self.waiting, self.bytes, self.due = [], 0, 0

    def collect(self, count):
        self.flush()
        answers, self.answers = self.answers, 0
        if answers != count:
            raise Failed(f"redis: {answers} answers to {count} commands")

    def say(self, *words):
        self.send(*words)
        self.link.sendall(b"".join(self.waiting))
        self.waiting, self.bytes, self.due = [], 0, 0
        return self.read()

    def read(self):
        line = self.lines.readline()
        if not line.endswith(b"\r\n"):
            raise Failed("redis: the connection ended")
        kind, rest = line[:1], line[1:-2]
        if kind == b"-":
            raise Failed(f"redis: {rest.decode()}")
        if kind == b"$":
            return None if rest == b"-1" else self.lines.read(int(rest) + 2)[:-2]
        if kind == b"*":
            return [self.read() for _ in range(int(rest))]
        return rest

    def close(self):
        self.link.close()
