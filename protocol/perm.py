"""What may be done with a topic's queues: three bits.

Upstream: PermName.
"""

from __future__ import annotations

READ = 4
WRITE = 2
INHERIT = 1
READ_WRITE = READ | WRITE

_LETTERS = ((READ, "R"), (WRITE, "W"), (INHERIT, "X"))


def is_readable(perm: int) -> bool:
    """Whether messages may be pulled."""
    return bool(perm & READ)


def is_writeable(perm: int) -> bool:
    """Whether messages may be sent."""
    return bool(perm & WRITE)


def perm_text(perm: int) -> str:
    """``RW-`` and the like; other bits are not shown."""
    return "".join(letter if perm & bit else "-" for bit, letter in _LETTERS)
