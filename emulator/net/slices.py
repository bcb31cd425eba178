"""Long answers, made in slices that let others through.

A handler that has much to gather writes it as a generator: it yields where others may have
a turn, and returns its reply.  Between two slices everything may change: a slice reads what
holds at its time, as upstream's threads do.  A slice takes ten milliseconds, or so.
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
    """The reply, if there is but one slice; else the rest follows slice by slice, a turn each.

    What a slice raises is answered as if the handler had raised it.
    """
    try:
        next(slices)
    except StopIteration as done:
        reply: Reply = done.value
        return reply
    # A bell that nobody else knows: the wait ends as soon as others have had a turn.
    return Wait(object(), now_ms, lambda then_ms, _expired: in_slices(slices, then_ms))


def reply_of(body: Generator[None, None, bytes], header: Header | None = None) -> Slices:
    """The reply whose body is made in slices."""
    return Reply(header, (yield from body))


def long_body(
    empty: Body, pieces: Mapping[str, Iterable[object]], release: Release
) -> Generator[None, None, bytes]:
    """The text of *empty*, its collections filled: *pieces* of maps or lists by name on the wire.

    One piece is one slice, its making included.  Raises ``Refusal`` as soon as no frame can hold
    what there is.
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
    """The answer whose body is ``long_body``."""
    return in_slices(reply_of(long_body(empty, pieces, release), header), now_ms)


def filled(empty: Body, written: Mapping[str, Iterable[bytes]], release: Release) -> bytes:
    """The text of *empty*, with these texts of entries in its collections."""
    text = encode_body(empty, release)
    holes = {text.index(b'"%b":' % name.encode()) + len(name) + 4: name for name in written}
    parts: list[bytes] = []
    end = 0
    for begin in sorted(holes):
        parts += text[end:begin], b",".join(written[holes[begin]])
        end = begin
    return b"".join([*parts, text[end:]])


class SliceBudget:
    """Counts what a slice has done, where its steps differ in size."""

    def __init__(self, work_max: int) -> None:
        self._work_max = work_max
        self._work = 0

    def is_over(self, work: int) -> bool:
        """Whether the slice is full with this *work*; then the next one begins."""
        self._work += work
        if self._work < self._work_max:
            return False
        self._work = 0
        return True


def in_pieces(entries: Iterable[Entry], entries_max: int) -> Iterator[list[Entry]]:
    """The entries, *entries_max* in a piece: the last one has what is left, perhaps nothing.

    A table that may change meanwhile is not to be walked: give its keys, as a list.
    """
    walk = iter(entries)
    while piece := list(islice(walk, entries_max)):
        yield piece
