"""Messages that a broker lost with the end of its log, by the places in which they stood.

A message that was pulled before may come to a listener later, and its acknowledgement to its
producer; by then another one may stand in its place.
"""

from __future__ import annotations


class LostPlaces:
    """Of one queue: the last message of each place that was lost, by offset."""

    __slots__ = ("_replaced", "_unknown_to", "_unused")

    def __init__(self) -> None:
        self._unused: dict[int, tuple[int, str]] = {}  # when it was stored, and its key
        self._replaced: dict[int, str] = {}  # keys of those whose places are used again
        self._unknown_to = 0  # places below it may have had others, whose keys are not known

    def lose(self, offset: int, stored_us: int, key: str) -> None:
        """The message that stood there is lost."""
        self._unused[offset] = stored_us, key

    def lose_unknown(self, end: int) -> None:
        """Messages before *end* are lost of which nothing is known any more."""
        self._unknown_to = max(self._unknown_to, end)

    def use(self, offset: int) -> None:
        """Another message has that place now."""
        if self._unused and (lost := self._unused.pop(offset, None)) is not None:
            self._replaced[offset] = lost[1]

    def stored_us(self, offset: int) -> int | None:
        """When the lost message was stored in whose place nothing stands."""
        lost = self._unused.get(offset)
        return None if lost is None else lost[0]

    def is_unused(self, offset: int, key: str) -> bool:
        """That message was lost, and nothing stands in its place."""
        return self._unused.get(offset, (0, ""))[1] == key

    def had(self, offset: int, key: str) -> bool:
        """That message stood there until it was lost, or that is not known any more."""
        is_known = self.is_unused(offset, key) or self._replaced.get(offset) == key
        return is_known or offset < self._unknown_to
