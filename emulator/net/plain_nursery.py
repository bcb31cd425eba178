"""Nurseries whose one failure reaches the user as itself, not inside a group."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import trio


@asynccontextmanager
async def plain_nursery() -> AsyncIterator[trio.Nursery]:
    """Its tasks are cancelled when the block ends."""
    try:
        async with trio.open_nursery() as nursery:
            yield nursery
            nursery.cancel_scope.cancel()
    except BaseExceptionGroup as group:
        raise _the_one(group) from None


@asynccontextmanager
async def whole_nursery() -> AsyncIterator[trio.Nursery]:
    """Its tasks run to their ends."""
    try:
        async with trio.open_nursery() as nursery:
            yield nursery
    except BaseExceptionGroup as group:
        raise _the_one(group) from None


def _the_one(error: BaseException) -> BaseException:
    while isinstance(error, BaseExceptionGroup) and len(error.exceptions) == 1:
        error = error.exceptions[0]
    return error
