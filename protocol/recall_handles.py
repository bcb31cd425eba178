"""The handle by which a producer recalls a timer message: where it lies, in one opaque word.

URL-safe base64 of ``v1 <topic> <broker> <time> <unique key>``, with blanks between.

Upstream: RecallMessageHandle (5.3.2).
"""

from __future__ import annotations

import base64
import re
from typing import NamedTuple

_VERSION = "v1"
_ALPHABET = re.compile(r"[A-Za-z0-9_-]*={0,2}")
_PARTS = 5


class BadHandle(ValueError):
    """The text is no handle of a kind we know; its message is upstream's remark."""


class RecallHandle(NamedTuple):
    """``deliver_ms`` is as it was written: it may be no number."""

    topic: str
    broker_name: str
    deliver_ms: str
    uniq_key: str

    def encode(self) -> str:
        """The handle's text."""
        return base64.urlsafe_b64encode(" ".join((_VERSION, *self)).encode()).decode()


def decode_handle(text: str) -> RecallHandle:
    """The parts of a handle.  Raises ``BadHandle``."""
    if not text or not _ALPHABET.fullmatch(text) or ("=" in text and len(text) % 4):
        raise BadHandle("recall handle is invalid")
    try:
        raw = base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
    except ValueError as error:
        raise BadHandle("recall handle is invalid") from error
    version, *parts = raw.decode("utf-8", "replace").rstrip(" ").split(" ")
    if version != _VERSION or len(parts) < _PARTS - 1:
        raise BadHandle("recall handle is invalid")
    return RecallHandle(*parts[: _PARTS - 1])
