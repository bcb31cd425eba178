"""The encoded text of bodies that are sent again and again: heartbeats, registrations, routes.

Writing fastjson's dialect costs more than anything else a quiet cluster does, and a
quiet cluster sends the same bodies.  So the last value is kept with its text for each
key; equal values have equal texts.  The values must be immutable.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

TEXTS_MAX = 1_000  # ours: then the cache is emptied

Value = TypeVar("Value")


class EncodedCache(Generic[Value]):
    """The last value and its text for each key; *encode* makes a text that is not cached."""

    def __init__(self, encode: Callable[[Value], bytes]) -> None:
        self._encode = encode
        self._texts: dict[Hashable, tuple[Value, bytes]] = {}

    def text(self, value: Value, key: Hashable = None) -> bytes:
        """The encoded *value*.  Values that are sent in turn need a *key* each."""
        known = self._texts.get(key)
        if known is not None and known[0] == value:
            return known[1]
        text = self._encode(value)
        if len(self._texts) >= TEXTS_MAX:
            self._texts.clear()
        self._texts[key] = (value, text)
        return text
