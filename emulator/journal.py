"""The journal: facts as JSON Lines, one node's or several merged by time.

    {"seq":7,"at_ms":1700000000123,"node":"broker-a","fact":{"kind":"TopicCreated",…}}

``wants`` keeps the hot path free of facts nobody asked for.  A journal never decides
anything: what it is given it writes, in order, at once.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any

import msgspec

from emulator.facts import Fact


class Entry(msgspec.Struct, frozen=True):
    """One line: what happened, when (wall milliseconds), at which node, after how many others."""

    seq: int
    at_ms: int
    node: str
    fact: Fact


class Journal:
    """Facts of one node.  *write* takes finished lines; *now_ms* is that node's own clock."""

    def __init__(
        self,
        node: str,
        now_ms: Callable[[], int],
        write: Callable[[bytes], object] | None = None,
        *,
        kinds: Collection[type[Fact]] | None = None,
        listeners: Collection[Callable[[Entry], object]] = (),
    ) -> None:
        self.node = node
        self._now_ms = now_ms
        self._write = write
        self._kinds = None if kinds is None else frozenset(kinds)
        self._listeners = list(listeners)
        self._seq = 0

    def wants(self, kind: type[Fact]) -> bool:
        """Would anybody read such a fact?  Ask before building one on a hot path."""
        somebody = self._write is not None or bool(self._listeners)
        return somebody and (self._kinds is None or kind in self._kinds)

    def note(self, fact: Fact) -> None:
        if not self.wants(type(fact)):
            return
        self._seq += 1
        entry = Entry(self._seq, self._now_ms(), self.node, fact)
        if self._write is not None:
            self._write(_encode(entry) + b"\n")
        for listener in self._listeners:
            listener(entry)

    def listen(self, listener: Callable[[Entry], object]) -> None:
        self._listeners.append(listener)


def silent(fact: Fact) -> None:
    """A ``note`` for those who keep no journal."""


_encode_whole = msgspec.json.Encoder().encode


def _encode(entry: Entry) -> bytes:
    try:
        return _encode_whole(entry)
    except UnicodeEncodeError:  # a peer called something by half a surrogate pair
        return _encode_whole(_writable(msgspec.to_builtins(entry)))


def _writable(value: Any) -> Any:
    """The same with question marks for what no UTF-8 can say."""
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode()
    if isinstance(value, dict):
        return {name: _writable(member) for name, member in value.items()}
    if isinstance(value, list | tuple):
        return [_writable(item) for item in value]
    return value
