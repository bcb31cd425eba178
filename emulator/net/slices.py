"""Long replies, built in slices, so that other requests are handled in between.

A handler with a long reply is a generator: it yields where other requests may be handled, and
returns its reply.  All state may change between two slices: each slice reads the state of its
own time, as upstream's threads do.  A slice takes about ten milliseconds.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator, Mapping
from itertools import islice
from typing import TypeAlias, TypeVar

from rocketmq_emulator.net.results import Refusal, Reply, Result, Wait
from rocketmq_emulator.protocol.bodies.body import Body, encode_body
from rocketmq_emulator.protocol.codes import ResponseCode
from rocketmq_emulator.protocol.fields import Header
from rocketmq_emulator.protocol.framing import FRAME_BYTES_MAX
from rocketmq_emulator.protocol.versions import Release

Slices: TypeAlias = Generator[None, None, Reply]
Entry = TypeVar("Entry")


def in_slices(slices: Slices, now_ms: int) -> Result:
    """The reply, if there is only one slice; else a wait, and each next slice in a later turn.

    An exception of a slice is answered as an exception of the handler.
    """
    try:
        next(slices)
    except StopIteration as done:
        reply: Reply = done.value
        return reply
    # The bell is never rung: the wait expires at once, after the tasks that wait already.
    return Wait(object(), now_ms, lambda then_ms, _expired: in_slices(slices, then_ms))


def reply_of(body: Generator[None, None, bytes], header: Header | None = None) -> Slices:
    """The slices of a reply whose *body* is built in slices."""
    return Reply(header, (yield from body))


def long_body(
    empty: Body, pieces: Mapping[str, Iterable[object]], release: Release
) -> Generator[None, None, bytes]:
    """The text of *empty* with its maps or lists filled with *pieces*, by name on the wire.

    Each piece is one slice, with the work to build it.  Raises ``Refusal`` as soon as the text
    is longer than a frame.
    """
    written: dict[str, list[bytes]] = {}
    size = 0
    for name, given in pieces.items():
        texts = written[name] = []
        for piece in given:
            if texts:
                yield
            if piece:
                texts.append(encode_body(piece, release)[1:-1])  # without its brackets
                size += len(texts[-1])
            if size > FRAME_BYTES_MAX:
                remark = f"the answer is longer than a frame may be: {FRAME_BYTES_MAX} bytes"
                raise Refusal(ResponseCode.SYSTEM_ERROR, remark)
    return filled(empty, written, release)


def long_reply(
    empty: Body,
    pieces: Mapping[str, Iterable[object]],
    release: Release,
    now_ms: int,
    header: Header | None = None,
) -> Result:
    """The result whose reply has the body of ``long_body``."""
    return in_slices(reply_of(long_body(empty, pieces, release), header), now_ms)


def filled(empty: Body, written: Mapping[str, Iterable[bytes]], release: Release) -> bytes:
    """The text of *empty*, with the texts in *written* as entries of its maps or lists."""
    text = encode_body(empty, release)
    holes = {text.index(b'"%b":' % name.encode()) + len(name) + 4: name for name in written}
    parts: list[bytes] = []
    end = 0
    for begin in sorted(holes):
        parts += text[end:begin], b",".join(written[holes[begin]])
        end = begin
    return b"".join([*parts, text[end:]])


class SliceBudget:
    """Counts the work of a slice whose steps differ in size."""

    def __init__(self, work_max: int) -> None:
        self._work_max = work_max
        self._work = 0

    def is_over(self, work: int) -> bool:
        """Add *work*; True if the slice is full: then the next slice begins."""
        self._work += work
        if self._work < self._work_max:
            return False
        self._work = 0
        return True


def in_pieces(entries: Iterable[Entry], entries_max: int) -> Iterator[list[Entry]]:
    """The entries in pieces of *entries_max*; the last piece may be shorter.

    A table may change between two pieces: pass a list of its keys instead.
    """
    walk = iter(entries)
    while piece := list(islice(walk, entries_max)):
        yield piece
