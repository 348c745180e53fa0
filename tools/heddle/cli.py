"""The command line of `heddle`."""

from __future__ import annotations

import os
import sys

import click

from . import __version__
from .compare_command import compare
from .demo_command import demo
from .errors import EXIT_UNUSABLE, HeddleError
from .info_commands import allocators, doctor
from .libraries import preload_value, read_library, require_heddle
from .options import parse_setting, with_settings
from .shared_options import PROGRAM_SETTINGS, heddle_options, program_arguments
from .target import resolve_target


@click.group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(__version__, prog_name="heddle")
def cli():
    """Run programs on the Heddle memory allocator, and compare allocators on them.

    \b
    heddle run -- ./server --port 80     the program on Heddle
    heddle compare -- ./batch data.csv   the program under every allocator found
    heddle demo                          a comparison on a real workload, two minutes
    heddle doctor -- ./server            is the override active, and if not, why
    """


@cli.command(context_settings=PROGRAM_SETTINGS)
@heddle_options
@click.option("--stats", is_flag=True, help="Print Heddle's statistics when the program ends.")
@click.option("--no-children", is_flag=True, help="Do not hand the preload on to programs that this one starts.")
@program_arguments
def run(library, settings, stats, no_children, program, arguments):
    """Run PROGRAM with Heddle as its allocator.

    The program replaces this command, so signals and the exit status are its own. Exit status 127: program not
    found; 126: it cannot take a preloaded library (static, setuid) or cannot be executed.

    \b
    heddle run -- ./app
    heddle run --set purge-delay=500 --set thp=never -- ./app --fast
    """
    chosen = [parse_setting(text) for text in settings]
    if stats:
        chosen.append(("stats", "on"))
    if no_children:
        chosen.append(("preload-children", "off"))
    path = require_heddle(library)
    target = resolve_target(program)
    check_same_architecture(path, target)
    environment = with_settings(dict(os.environ), chosen)
    environment["LD_PRELOAD"] = preload_value(path, environment)
    sys.stdout.flush()
    try:
        os.execve(target.path, [program, *arguments], environment)
    except OSError as error:
        raise HeddleError(f"{target.path}: cannot be executed ({error.strerror})", EXIT_UNUSABLE) from None


def check_same_architecture(library: str, target) -> None:
    elf = read_library(library, "libheddle")
    if not elf.fits(target.elf):
        raise HeddleError(f"{target.binary} is {target.elf.architecture}, the library {library} is "
                          f"{elf.architecture}: the loader would ignore it", EXIT_UNUSABLE)


cli.add_command(compare)
cli.add_command(demo)
cli.add_command(allocators)
cli.add_command(doctor)


def main() -> None:
    """The entry point: like click's, with an interrupt's usual status."""
    try:
        sys.exit(cli.main(standalone_mode=False, prog_name="heddle") or 0)
    except click.exceptions.Abort:
        click.echo("heddle: interrupted", err=True)
        sys.exit(130)
    except click.ClickException as error:
        error.show()
        sys.exit(error.exit_code)
    except BrokenPipeError:
        # Whoever read our output has gone; the interpreter's own flush at exit must not complain either.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(141)
