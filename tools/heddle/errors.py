"""Errors that end the command with one line and a chosen exit status."""

from __future__ import annotations

import click

# Exit statuses follow the shells' habit, so that scripts can tell "your program" from "the tool".
EXIT_DIFFERENT = 1
EXIT_UNUSABLE = 126
EXIT_NOT_FOUND = 127


class HeddleError(click.ClickException):
    """A one-line error; `exit_code` is what the command exits with."""

    def __init__(self, message: str, exit_code: int = 1):
        super().__init__(message)
        self.exit_code = exit_code

    def show(self, file=None):
        click.echo(f"heddle: {self.format_message()}", file=file, err=file is None)
