"""Texts of bodies that are said again and again: heartbeats, registrations, routes.

Writing fastjson's dialect costs more than anything else a quiet cluster does, and a
quiet cluster says the same.  So the last values are kept with their texts; equal values
have equal texts.  Only for values that nobody changes after they were made.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any

TEXTS_MAX = 1_000


class Remembered:
    """The last value and text for each key; *encode* makes a text that is not at hand."""

    def __init__(self, encode: Callable[[Any], bytes]) -> None:
        self._encode = encode
        self._texts: dict[Hashable, tuple[Any, bytes]] = {}

    def text(self, value: Any, key: Hashable = None) -> bytes:
        known = self._texts.get(key)
        if known is not None and known[0] == value:
            return known[1]
        text = self._encode(value)
        if len(self._texts) >= TEXTS_MAX:
            self._texts.clear()
        self._texts[key] = (value, text)
        return text
