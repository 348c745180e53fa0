"""Options that several commands have in common."""

from __future__ import annotations

import click

# Everything after the program's name is the program's, also what looks like an option of ours.
PROGRAM_SETTINGS = {
    "ignore_unknown_options": False,
    "allow_interspersed_args": False,
    "help_option_names": ["-h", "--help"],
    "max_content_width": 100,
}


def program_arguments(function):
    function = click.argument("arguments", nargs=-1, type=click.UNPROCESSED)(function)
    return click.argument("program", type=click.UNPROCESSED)(function)


def heddle_options(function):
    function = click.option(
        "--set", "settings", metavar="KEY=VALUE", multiple=True,
        help="An option of Heddle, such as purge-delay=500 or thp=never (repeatable; goes into HEDDLE=).")(function)
    return click.option(
        "--library", metavar="PATH", help="Heddle's library, instead of searching for libheddle.so.1.")(function)


def report_options(function):
    function = click.option("--html", "html_path", type=click.Path(dir_okay=False), metavar="FILE",
                            help="Write one self-contained page with plots.")(function)
    return click.option("--json", "json_path", type=click.Path(dir_okay=False, allow_dash=True), metavar="FILE",
                        help="Write all figures and runs as JSON (- for standard output).")(function)


def choice_options(function):
    function = click.option("--allocator", "extra", metavar="NAME=PATH", multiple=True,
                            help="One more allocator: a library to preload (repeatable).")(function)
    function = click.option("--only", metavar="NAMES", help="Only these allocators, separated by commas.")(function)
    return click.option("--baseline", metavar="NAME", default="system", show_default=True,
                        help="What the ratios are ratios to.")(function)
