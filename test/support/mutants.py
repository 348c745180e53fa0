"""What the scripts that break the library on purpose share: a change of the source in a copy of it, and running many of them.

SPDX-License-Identifier: MIT
"""
import concurrent.futures
import shutil


class Gone(Exception):
    """The text of a change is no longer in the source."""


def first_line(text):
    return text.strip().splitlines()[0]


def edited(source, file, edits):
    """The file's text with each (old, new) of edits done."""
    text = (source / file).read_text()
    for old, new in edits:
        if old not in text:
            raise Gone(f"no longer in {file}: {first_line(old)}")
        text = text.replace(old, new)
    return text


def copy_broken(source, folder, file, edits):
    """A copy of the source tree in folder, with the edits in one file. returns that file."""
    text = edited(source, file, edits)
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(source, folder)
    (folder / file).write_text(text)
    return folder / file


def report(chosen, attempt, name_of, jobs=2):
    """attempt(mutant) gives (killed, what happened), for each; a line about each. returns how many are against us."""
    bad = 0
    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        for mutant, (killed, what) in zip(chosen, pool.map(attempt, chosen)):
            bad += not killed
            print(f"{'killed' if killed else 'SURVIVED':9} {name_of(mutant)}: {what}", flush=True)
    return bad
