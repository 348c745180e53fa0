"""ghostscript: pages drawn by program, to PDF and from there to pixels, byte for byte equal.

SPDX-License-Identifier: MIT
"""
import re

from harness.place import digest
from harness.program import Failed, Program

DATED = re.compile(rb"/(CreationDate|ModDate)\s*\([^)]*\)|/ID\s*\[[^\]]*\]|<xmp:(ModifyDate|CreateDate)>[^<]*<|uuid:[0-9a-f-]+"
                   rb"|%%CreationDate: [^\n]*|\d{4}:\d\d:\d\d \d\d:\d\d:\d\d", re.S)


def draw(place, device, source, name, *words):
    output = place.folder / name
    place.run("gs", "-q", "-dNOPAUSE", "-dBATCH", "-dSAFER", f"-sDEVICE={device}", f"-sOutputFile={output}", *words, source)
    files = sorted(place.folder.glob(name.replace("%d", "*")))
    if not files:
        raise Failed(f"gs: {device} wrote nothing")
    return digest(*(DATED.sub(b"", path.read_bytes()) for path in files)), sum(path.stat().st_size for path in files)


def run(place):
    pages = place.write("pages.ps", (place.input / "pages.ps").read_text().replace("PAGES", str(place.times(12))))
    results = {"pdf": draw(place, "pdfwrite", pages, "pages.pdf")}
    pdf = place.folder / "pages.pdf"
    for device, name, words in (("png16m", "page%d.png", ("-r120", "-dNumRenderingThreads=3", "-dBufferSpace=2000000")),
                                ("tiffg4", "pages.tiff", ("-r200",)), ("jpeg", "page%d.jpg", ("-r72", "-dGraphicsAlphaBits=4")),
                                ("ps2write", "again.ps", ()), ("txtwrite", "pages.txt", ())):
        results[device] = draw(place, device, pdf, name, *words)
    return results


PROGRAMS = [
    Program("ghostscript", "ghostscript: PostScript to PDF, PNG by threads, TIFF, JPEG, text", run, {"gs": "ghostscript"}, mapped=("gs",)),
]
