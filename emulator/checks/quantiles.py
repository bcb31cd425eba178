"""Quantiles of many durations, in a few hundred buckets: each at most 1.6 % off."""

from __future__ import annotations

EXACT_BITS = 6  # values below 128 have a bucket of their own


class Quantiles:
    """Whole numbers from 0 up; the memory does not grow with how many."""

    __slots__ = ("_buckets", "count", "max")

    def __init__(self) -> None:
        self._buckets: dict[int, int] = {}
        self.count = 0
        self.max = 0

    def add(self, value: int) -> None:
        """One more."""
        value = max(value, 0)
        shift = max(0, value.bit_length() - EXACT_BITS - 1)
        bucket = (value >> shift) << shift
        self._buckets[bucket] = self._buckets.get(bucket, 0) + 1
        self.count += 1
        self.max = max(self.max, value)

    def at(self, share: float) -> float:
        """The smallest value that at least this *share* of them did not pass; 0 if none."""
        left = share * self.count
        for bucket in sorted(self._buckets):
            left -= self._buckets[bucket]
            if left <= 0:
                return float(bucket)
        return float(self.max)
