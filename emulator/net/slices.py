"""Long answers, made in slices that let others through.

A handler that has much to gather writes it as a generator: it yields where others may have
a turn, and returns its reply.  Between two slices everything may change: a slice reads what
holds at its time, as upstream's threads do.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import TypeAlias

from emulator.net.results import Reply, Result, Wait

Slices: TypeAlias = Generator[None, None, Reply]


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
