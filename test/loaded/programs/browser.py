"""Headless Chromium: a local page with scripts, its DOM and a picture of it.

Chromium defines malloc in its own executable, so its heaps stay its own: Heddle is mapped, and serves only the launching
script and helpers that are other executables. What is shown is that nothing breaks; own_malloc.c holds what once did.

SPDX-License-Identifier: MIT
"""
from harness.place import digest
from harness.program import Failed, Program

QUIET = ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run", "--disable-background-networking",
         "--disable-component-update", "--disable-sync", "--disable-extensions", "--hide-scrollbars", "--force-device-scale-factor=1",
         "--font-render-hinting=none", "--window-size=800,600", "--virtual-time-budget=20000", "--run-all-compositor-stages-before-draw",
         "--disable-breakpad", "--proxy-server=127.0.0.1:9", "--password-store=basic")


def run(place):
    page = place.write("page.html", (place.input / "page.html").read_text().replace("ROUNDS", str(place.times(40))))

    def chromium(*words):
        return place.run("chromium", *QUIET, f"--user-data-dir={place.folder}/profile", *words, f"file://{page}", stats=False, timeout=200)

    dom = chromium("--dump-dom").out
    if "finished" not in dom:
        raise Failed(f"chromium: the page's script did not end: {dom[-400:]}")
    picture = place.folder / "page.png"
    chromium(f"--screenshot={picture}")
    return {"dom": dom, "picture": digest(picture), "bytes": picture.stat().st_size}


PROGRAMS = [Program("chromium", "headless Chromium: DOM and picture of a page with scripts", run, {"chromium": "chromium"},
                    mapped=("chromium",), seconds=400)]
