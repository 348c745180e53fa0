"""The environment variable HEDDLE="key:value,key:value" that carries the library's options.

Only the form is checked here. Which keys exist is the library's own table, and the library warns about unknown ones.
"""

from __future__ import annotations

import re
from typing import Dict, Iterable, List, Tuple

from .errors import HeddleError

KEY_PATTERN = re.compile(r"[a-z][a-z0-9-]*\Z")
VALUE_PATTERN = re.compile(r"[^,\s]*\Z")


def parse_setting(text: str) -> Tuple[str, str]:
    """Split `key=value` or `key:value`; a key alone is a switch. Raises HeddleError with status 2."""
    match = re.match(r"([^=:]*)([=:]?)(.*)\Z", text, re.S)
    key, separator, value = match.groups()
    if not KEY_PATTERN.match(key):
        raise HeddleError(f"--set {text!r}: an option looks like key=value, with a key such as purge-delay", 2)
    if separator and not value:
        raise HeddleError(f"--set {text!r}: the value is empty", 2)
    if not VALUE_PATTERN.match(value):
        raise HeddleError(f"--set {text!r}: a value has no spaces and no commas", 2)
    return key, value


def merge_settings(existing: str, settings: Iterable[Tuple[str, str]]) -> str:
    """Add settings to an existing HEDDLE value; a later setting of a key replaces an earlier one."""
    merged: Dict[str, str] = {}
    for item in existing.split(","):
        item = item.strip()
        if item:
            merged[item.split(":", 1)[0]] = item
    for key, value in settings:
        merged.pop(key, None)
        merged[key] = f"{key}:{value}" if value else key
    return ",".join(merged.values())


def with_settings(environment: Dict[str, str], settings: List[Tuple[str, str]]) -> Dict[str, str]:
    """A copy of the environment with the settings in HEDDLE; without settings HEDDLE stays as it is."""
    result = dict(environment)
    # Names the tool's own setting; the library would take it for an option key and warn.
    result.pop("HEDDLE_LIBRARY", None)
    if settings:
        result["HEDDLE"] = merge_settings(result.get("HEDDLE", ""), settings)
    return result
