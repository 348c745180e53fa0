"""nginx: static files, gzip and a cached proxy under wrk, with reloads all the while; every answer checked by its digest.

SPDX-License-Identifier: MIT
"""
import http.client
import signal
import threading
import time

from harness.place import digest
from harness.program import Failed, Program

SIZES = (0, 1, 500, 4000, 30000, 120000, 700000)
CONFIG = """daemon off;
user root;
worker_processes 2;
pid {folder}/nginx.pid;
error_log stderr warn;
events {{ worker_connections 256; }}
http {{
  access_log {folder}/access.log;
  client_body_temp_path {folder}/body;
  fastcgi_temp_path {folder}/fastcgi;
  uwsgi_temp_path {folder}/uwsgi;
  scgi_temp_path {folder}/scgi;
  proxy_temp_path {folder}/proxy;
  proxy_cache_path {folder}/cache keys_zone=kept:1m max_size=4m;
  gzip_min_length 100;
  gzip_types *;
  server {{
    listen 127.0.0.1:{port} reuseport;
    root {folder}/pages;
    location /plain/ {{ alias {folder}/pages/; }}
    location /packed/ {{ gzip on; alias {folder}/pages/; }}
    location /ssi/ {{ ssi on; ssi_types *; alias {folder}/pages/; }}
    location /back/ {{
      proxy_pass http://127.0.0.1:{port}/plain/;
      proxy_cache kept;
      proxy_cache_valid 200 1s;
      proxy_buffers 8 4k;
    }}
  }}
}}
"""


def fetch(port, path, packed):
    """One answer on a connection of its own: (status, digest of the body)."""
    link = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    try:
        link.request("GET", path, headers={"Accept-Encoding": "gzip"} if packed else {})
        answer = link.getresponse()
        return answer.status, digest(answer.read())
    finally:
        link.close()


def paths():
    files = [f"f{size}.txt" for size in SIZES] + ["part.html", "absent"]
    return [f"/{where}/{name}" for where in ("plain", "packed", "ssi", "back") for name in files]


def check_pages(port, first):
    """All pages again: each has to be what it was at first. A connection that a leaving worker closes is tried once more."""
    for path in paths():
        for attempt in (1, 2, 3):
            try:
                found = fetch(port, path, "packed" in path)
                break
            except (ConnectionError, http.client.RemoteDisconnected):
                if attempt == 3:
                    raise Failed(f"nginx: {path}: three connections broke") from None
        if first.setdefault(path, found) != found:
            raise Failed(f"nginx: {path} changed under load")


def load(place, port, paths_, seconds):
    threads, outcomes = [], []

    def one(path):
        try:
            address = f"http://127.0.0.1:{port}{path}"
            outcomes.append(place.run("wrk", "-t1", "-c12", f"-d{seconds}s", "-H", "Accept-Encoding: gzip", address))
        except Exception as problem:
            outcomes.append(problem)

    for path in paths_:
        threads.append(threading.Thread(target=one, args=(path,)))
        threads[-1].start()
    return threads, outcomes


def run(place):
    port = place.port()
    for size in SIZES:
        place.write(f"pages/f{size}.txt", "".join(f"{i * 7919 % 10007} " for i in range(size // 4 + 1))[:size])
    place.write("pages/part.html", '<p><!--#set var="a" value="b" --><!--#echo var="a" --><!--#include virtual="/plain/f4000.txt" --></p>')
    config = place.write("nginx.conf", CONFIG.format(folder=place.folder, port=port))
    process = place.start("nginx", "-p", place.folder, "-c", config)
    place.wait_for(process, lambda: fetch(port, "/plain/f1.txt", False)[0] == 200, "nginx")
    first, reloads = {}, 0
    check_pages(port, first)
    threads, outcomes = load(place, port, ("/packed/f30000.txt", "/back/f120000.txt", "/ssi/part.html"), place.times(6, least=2))
    while any(thread.is_alive() for thread in threads):
        process.send_signal(signal.SIGHUP)
        reloads += 1
        check_pages(port, first)
        time.sleep(0.2)
    for outcome in outcomes:
        if isinstance(outcome, Exception):
            raise outcome
        if "Non-2xx" in outcome.out:
            raise Failed(f"wrk: {outcome.out}")
    check_pages(port, first)
    place.notes.append(f"{reloads} reloads under load")
    log = place.stop(process, signal.SIGQUIT, processes=3)
    bad = [line for line in log.splitlines() if "[alert]" in line or "[emerg]" in line]
    return {"pages": {path: found for path, found in first.items()}, "alerts": bad, "reloads": reloads > 0}


PROGRAMS = [
    Program("nginx", "nginx: files, gzip, SSI, cached proxy under wrk with reloads", run,
            {"nginx": "nginx-light", "wrk": "wrk"}, mapped=("nginx", "wrk")),
]
