"""Installs what a comparison lacks, by the ordinary package clients, and says each command before it runs."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
from typing import List, Sequence

import click

from .errors import HeddleError


def apt_command(packages: Sequence[str]) -> List[str]:
    command = ["apt-get", "install", "-y", "--no-install-recommends", *packages]
    return command if os.geteuid() == 0 else ["sudo", *command]


def pip_command(packages: Sequence[str]) -> List[str]:
    return [sys.executable, "-m", "pip", "install", *packages]


def in_virtual_environment() -> bool:
    return sys.prefix != sys.base_prefix


def _run(command: Sequence[str]) -> bool:
    click.echo(f"+ {shlex.join(command)}", err=True)
    try:
        return subprocess.run(command, stdin=subprocess.DEVNULL, stdout=sys.stderr).returncode == 0
    except OSError as error:
        click.echo(f"heddle: {command[0]}: {error.strerror}", err=True)
        return False


def _update_command() -> List[str]:
    update = ["apt-get", "update"]
    return update if os.geteuid() == 0 else ["sudo", *update]


def install_debian(packages: Sequence[str]) -> None:
    """Install packages. Raises HeddleError if that is not possible here or fails."""
    if not packages:
        return
    if shutil.which("apt-get") is None:
        raise HeddleError(f"no apt-get here; install by hand what Debian calls: {' '.join(packages)}")
    # The package lists of a fresh machine are often empty or old, so one failure is answered by an update.
    if not _run(apt_command(packages)) and not (_run(_update_command()) and _run(apt_command(packages))):
        raise HeddleError(f"apt-get could not install {' '.join(packages)}")


def install_python(packages: Sequence[str]) -> bool:
    """Install packages into this Python; a system Python that refuses is no error, the rest still runs."""
    if not packages:
        return True
    if not in_virtual_environment():
        click.echo(f"heddle: not in a virtual environment, so {' '.join(packages)} is left out "
                   "(python3 -m venv makes one)", err=True)
        return False
    return _run(pip_command(packages))
