"""The journal: facts as JSON Lines, one node's or several merged by time.

    {"seq":7,"at_ms":1700000000123,"mono_us":123456,"node":"broker-a","fact":{"kind":"TopicCreated",…}}

``at_ms`` is the node's wall time, which may be wrong or be set; ``mono_us`` is the monotonic
time of its machine, by which journals of several processes are merged.  Hot paths check
``wants`` before they make a fact.  A journal makes no decisions: it writes each fact at once,
in the order given.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Collection, Iterable, Iterator
from typing import TYPE_CHECKING, Protocol

import msgspec

from rocketmq_emulator.facts import Fact, FactsLeftOut

if TYPE_CHECKING:
    from rocketmq_emulator.clocks.clock import Clock


WORLD_NODE = "world"  # of entries about the whole cluster: faults, runs


class Entry(msgspec.Struct, frozen=True, gc=False):
    """One line: a fact, its node, its times, and its number at that node."""

    seq: int  # 1 is a node's first; a missing line leaves a gap
    at_ms: int  # wall time of the node
    mono_us: int  # monotonic time of the machine, or of the virtual world
    node: str
    fact: Fact


Listener = Callable[[Entry], object]
KindDispatch = tuple[int, tuple[Listener, ...]]  # of a kind: its step of ``seq``, its listeners


class Journal:
    """Facts of one node.  *write* gets encoded lines; *clock* is the clock of that node.

    *write* returns False for a line that a full disk left out; *write_reserved* then gets a
    ``FactsLeftOut`` with the number and the time of the first one, again with each further one:
    it replaces its line.  Listeners get it at the first one, and with the count when it is over.
    *kinds* are the facts to write; by default all that are not ``on_demand``, and those that
    are enabled by ``enable_on_demand``.
    *listeners* get the same entries as *write*; see ``listen`` for other kinds.
    """

    def __init__(
        self,
        node: str,
        clock: Clock,
        write: Callable[[bytes], object] | None = None,
        *,
        write_reserved: Callable[[bytes], object] | None = None,
        kinds: Collection[type[Fact]] | None = None,
        listeners: Collection[Listener] = (),
    ) -> None:
        self.node = node
        self._now_ms = clock.now_ms
        self._mono_us = clock.mono_us
        self._writer = _EntryWriter(write or discard_line, write_reserved, self._announce)
        self._write_entry: Listener | None = None if write is None else self._writer.take
        self._kinds = None if kinds is None else frozenset(kinds)
        self._listeners: list[tuple[Listener, frozenset[type[Fact]] | None]] = [
            (listener, self._kinds) for listener in listeners
        ]
        self._dispatch_by_kind: dict[type[Fact], KindDispatch] = {}
        self._wanted = _Wanted(lambda kind: bool(self._dispatch_of(kind)[1]))
        # Whether facts of a kind are written or listened to.  Check this before making a
        # frequent fact: the lookup in a dict costs a fortieth of a note.
        self.wants: Callable[[type[Fact]], bool] = self._wanted.__getitem__
        self._asked_for: frozenset[type[Fact]] = frozenset()
        self._seq = 0

    def enable_on_demand(self, on_demand: Collection[type[Fact]]) -> None:
        """From now on facts of these kinds are wanted too."""
        self._asked_for |= frozenset(on_demand)
        self._clear_dispatch()

    def note(self, fact: Fact) -> None:
        """Write *fact*, which has just happened, with the time, if its kind is wanted."""
        kind = type(fact)
        step, takers = self._dispatch_by_kind.get(kind) or self._dispatch_of(kind)
        if takers:
            self._seq += step
            entry = Entry(self._seq, self._now_ms(), self._mono_us(), self.node, fact)
            for take in takers:
                take(entry)

    def listen(self, listener: Listener, kinds: Collection[type[Fact]] | None = None) -> None:
        """Give *listener* every entry of *kinds* (default: all not ``on_demand``) from now on."""
        self._listeners.append((listener, None if kinds is None else frozenset(kinds)))
        self._clear_dispatch()

    def unlisten(self, listener: Listener) -> None:
        """Give *listener* no more entries."""
        self._listeners = [pair for pair in self._listeners if pair[0] != listener]
        self._clear_dispatch()

    @classmethod
    def to_file(cls, node: str, clock: Clock, file: JournalFile | None) -> Journal:
        """A journal whose lines are appended to *file*; None: it only has listeners."""
        if file is None:
            return cls(node, clock)
        return cls(node, clock, file.append, write_reserved=file.write_reserved)

    @property
    def left_out(self) -> int:
        """How many facts a full disk has left out of this journal so far."""
        return self._writer.left_out

    def close(self) -> None:
        """Drop all facts from now on: code of a killed node still notes some as it unwinds."""
        self._writer.end_gap()
        self._write_entry = None
        self._listeners.clear()
        self._clear_dispatch()

    def _dispatch_of(self, kind: type[Fact]) -> KindDispatch:
        """The step of ``seq`` and the listeners of facts of this kind, computed once."""
        write = self._write_entry
        is_written = write is not None and self._takes(kind, self._kinds)
        takers = [take for take, kinds in self._listeners if self._takes(kind, kinds)]
        if write is not None and is_written:
            takers.insert(0, write)
        # A missing line leaves a gap in the numbers, so only written entries count.
        step = int(is_written or write is None)
        plan = self._dispatch_by_kind[kind] = step, tuple(takers)
        return plan

    def _takes(self, kind: type[Fact], kinds: Collection[type[Fact]] | None) -> bool:
        if kinds is None:
            return not kind.on_demand or kind in self._asked_for
        return kind in kinds

    def _clear_dispatch(self) -> None:
        self._dispatch_by_kind.clear()
        self._wanted.clear()

    def _announce(self, entry: Entry) -> None:
        """Give listeners an entry that the writer has written itself."""
        for listener, kinds in [*self._listeners]:
            if self._takes(type(entry.fact), kinds):
                listener(entry)


class JournalFile(Protocol):
    """Takes lines; a full disk leaves some out.  See ``LineFile``."""

    def append(self, line: bytes, /) -> bool:
        """False if *line* was left out."""

    def write_reserved(self, line: bytes, /) -> bool:
        """Write *line* into room that was kept for it; a further one replaces it."""


class _EntryWriter:
    """Writes entries; counts those that a full disk leaves out, in a fact in their place."""

    def __init__(
        self,
        write: Callable[[bytes], object],
        write_reserved: Callable[[bytes], object] | None,
        announce: Listener,
    ) -> None:
        self._write = write
        self._write_reserved = write_reserved or discard_line
        self._announce = announce
        self._first: Entry | None = None  # the first of those that are left out now
        self._count = 0
        self.left_out = 0  # all

    def take(self, entry: Entry) -> None:
        """Write *entry*, or count it."""
        if self._write(encode_entry(entry)) is False:
            self._leave_out(entry)
        elif self._first is not None:
            self.end_gap()

    def end_gap(self) -> None:
        """Announce how many were left out, if some are left out now."""
        if self._first is not None:
            last = self._gap_entry(self._first, is_over=True)
            self._first, self._count = None, 0
            self._announce(last)

    def _leave_out(self, entry: Entry) -> None:
        is_first = self._first is None
        first = self._first = self._first or entry
        self._count += 1
        self.left_out += 1
        noted = self._gap_entry(first, is_over=False)
        self._write_reserved(encode_entry(noted))
        if is_first:
            self._announce(noted)

    def _gap_entry(self, first: Entry, *, is_over: bool) -> Entry:
        return msgspec.structs.replace(first, fact=FactsLeftOut(self._count, is_over))


def discard_line(line: bytes) -> None:
    """A ``write`` for journals that only have listeners: it drops *line*."""


class _Wanted(dict[type[Fact], bool]):
    """Results of *ask* by kind; it is called once a kind."""

    def __init__(self, ask: Callable[[type[Fact]], bool]) -> None:
        super().__init__()
        self._ask = ask

    def __missing__(self, kind: type[Fact]) -> bool:
        wanted = self[kind] = self._ask(kind)
        return wanted


def discard_fact(fact: Fact) -> None:
    """A ``note`` for code without a journal: it drops *fact*."""


class EntryKey(msgspec.Struct, frozen=True, order=True, gc=False):
    """The sort key of an entry among all nodes of a machine, or of a virtual world."""

    mono_us: int
    node: str
    seq: int


def merged(journals: Iterable[Iterable[bytes]]) -> Iterator[bytes]:
    """The lines of several journals of one machine, ordered by ``EntryKey``.

    Each journal is an iterable of lines, an open file for example, and is read no further
    than needed.  The order within one journal stays as it is.  Raises
    ``msgspec.MsgspecError`` for a line that is no entry.
    """
    return (line for _, line in heapq.merge(*map(_with_keys, journals)))


def _with_keys(lines: Iterable[bytes]) -> Iterator[tuple[EntryKey, bytes]]:
    return ((_key_of(line), line) for line in lines)


_encode_whole = msgspec.json.Encoder().encode
_key_of = msgspec.json.Decoder(EntryKey).decode


def encode_entry(entry: Entry) -> bytes:
    """*entry* as a line of JSON, with its end."""
    try:
        return _encode_whole(entry) + b"\n"
    except UnicodeEncodeError:  # a peer sent a name with half a surrogate pair
        return _encode_whole(without_surrogates(msgspec.to_builtins(entry))) + b"\n"


def without_surrogates(value: object) -> object:
    """*value* with question marks for lone surrogates, which UTF-8 cannot encode."""
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode()
    if isinstance(value, dict):
        return {name: without_surrogates(member) for name, member in value.items()}
    if isinstance(value, list | tuple):
        return [without_surrogates(item) for item in value]
    return value
