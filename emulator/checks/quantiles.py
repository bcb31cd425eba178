"""Quantiles of many durations, in a few hundred buckets: each at most 1.6 % off.

Values are counted as they are, and put into buckets once too many differ: most repeat.
"""

from __future__ import annotations

EXACT_BITS = 6  # values below 128 have a bucket of their own
VALUES_MAX = 4_096  # that differ, before they are put into buckets


class Quantiles:
    """Whole numbers from 0 up; the memory does not grow with how many."""

    __slots__ = ("_buckets", "_largest", "_values")

    def __init__(self) -> None:
        self._values: dict[int, int] = {}  # how often each came, not yet in buckets
        self._buckets: dict[int, int] = {}
        self._largest = 0

    def add(self, value: int) -> None:
        """One more."""
        values = self._values
        values[value] = values.get(value, 0) + 1
        if len(values) > VALUES_MAX:
            self._fill_buckets()

    @property
    def max(self) -> int:
        """The largest value; 0 if none."""
        return max(self._largest, *self._values, 0)

    def at(self, share: float) -> float:
        """The smallest value that at least this *share* of them did not pass; 0 if none."""
        self._fill_buckets()
        left = share * sum(self._buckets.values())
        for bucket in sorted(self._buckets):
            left -= self._buckets[bucket]
            if left <= 0:
                return float(bucket)
        return float(self._largest)

    def _fill_buckets(self) -> None:
        self._largest = self.max
        for value, count in self._values.items():
            bucket = max(value, 0)
            if (shift := bucket.bit_length() - EXACT_BITS - 1) > 0:
                bucket = bucket >> shift << shift
            self._buckets[bucket] = self._buckets.get(bucket, 0) + count
        self._values.clear()
