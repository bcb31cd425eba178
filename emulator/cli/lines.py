"""Lines of a file as bodies: their bytes without the line's end, whatever system wrote them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator


def bodies(lines: Iterable[bytes]) -> Iterator[bytes]:
    return (line.removesuffix(b"\n").removesuffix(b"\r") for line in lines)
