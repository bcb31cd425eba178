"""How much of everything one broker keeps.  Upstream keeps whatever it is sent.

A limit is reached by one client that is broken or by very many that are not.  Who comes
too late is told so, by a code that means "busy"; what is there already stays.
"""

from __future__ import annotations

from emulator.net.results import Refusal
from protocol.codes import ResponseCode

NAME_CHARS_MAX = 1_000  # of a group, a client id, a committed topic: 4.x checks none of them


def check_room(count: int, count_max: int, what: str) -> None:
    """Is there room for one more?  Raises ``Refusal``."""
    if count >= count_max:
        raise Refusal(ResponseCode.SYSTEM_BUSY, f"too many {what}: the limit is {count_max}")


def check_size(count: int, count_max: int, what: str) -> None:
    """Are these not too many at once?  Raises ``Refusal``."""
    if count > count_max:
        raise Refusal(
            ResponseCode.SYSTEM_BUSY, f"too many {what} at once: {count}, the limit is {count_max}"
        )


def check_name(name: str, what: str) -> None:
    """Is it short enough to be kept?  Raises ``Refusal``."""
    if len(name) > NAME_CHARS_MAX:
        raise Refusal(ResponseCode.SYSTEM_BUSY, f"{what} of {len(name)} characters")
