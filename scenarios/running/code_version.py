"""Which code a run was made by: another version may run another way from the same seed."""

from __future__ import annotations

import hashlib
import platform
from functools import cache
from importlib.metadata import version
from pathlib import Path

PACKAGES = ("protocol", "emulator", "scenarios")
LIBRARIES_THAT_COUNT = ("trio", "msgspec")
DIGITS = 12


@cache
def code_version() -> str:
    """A digest of our sources, of Python's release and of the libraries that decide order."""
    digest = hashlib.sha256(platform.python_version().encode())
    for library in LIBRARIES_THAT_COUNT:
        digest.update(f"{library} {version(library)}".encode())
    root = Path(__file__).parents[2]
    for package in PACKAGES:
        for path in sorted((root / package).rglob("*.py")):
            digest.update(str(path.relative_to(root)).encode())
            digest.update(path.read_bytes())
    return digest.hexdigest()[:DIGITS]
