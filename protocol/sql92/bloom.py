"""The bits that a broker gives a group in its Bloom filter, as upstream computes them.

With ``enableCalcFilterBitMap`` and ``enableConsumeQueueExt`` upstream sets a group's bits in the
bit map of each message that its expression matches, so that a pull can pass over other messages
without reading them; it gets the same messages.  Here only the positions are needed: they are in
``consumerFilter.json`` and in answers to tools, and a broker that finds a filter of another size
in its file drops the file's filters.

The positions come from one MurmurHash3 (x64, 128 bits, seed 0), of which the first 64 bits count.
Upstream: BloomFilter, BloomFilterData; Guava's Hashing.murmur3_128.
"""

from __future__ import annotations

import math
import struct

import msgspec

from rocketmq_emulator.protocol.bodies.groups import BloomFilterData
from rocketmq_emulator.protocol.messages.subscription import to_int32

ERROR_PERCENT = 20  # BrokerConfig.maxErrorRateOfBloomFilter
GROUPS_EXPECTED = 32  # BrokerConfig.expectConsumerNumUseFilter
_BITS_OF_BYTE = 8


class BloomFilter(msgspec.Struct, frozen=True):
    """Bits for *expected* keys, with *error_percent* false hits in a hundred tests.

    Raises ``ValueError`` if the percentage leaves no bit for a key.
    """

    error_percent: int = ERROR_PERCENT
    expected: int = GROUPS_EXPECTED

    @property
    def positions_count(self) -> int:
        """The bits of one key."""
        return math.ceil(_log(0.5, self.error_percent / 100))

    @property
    def bit_num(self) -> int:
        """The bits of the filter, a whole number of bytes."""
        error_rate = self.error_percent / 100
        bits = math.ceil(self.expected * _log(2, 1 / error_rate) * _log(2, math.e))
        return _BITS_OF_BYTE * math.ceil(bits / _BITS_OF_BYTE)

    def generate(self, key: str) -> BloomFilterData:
        """The positions of *key*, some perhaps twice.

        Upstream: BloomFilter.calcBitPositions, whose numbers of 32 bits overflow.
        """
        number = _murmur3(key.encode("utf-8", "replace"))
        low, high, bit_num = to_int32(number), to_int32(number >> 32), self.bit_num
        combined = (to_int32(low + i * high) for i in range(1, self.positions_count + 1))
        positions = tuple((~n if n < 0 else n) % bit_num for n in combined)
        return BloomFilterData(bit_num=bit_num, bit_pos=positions)

    def is_valid(self, data: BloomFilterData | None) -> bool:
        """Whether *data* is of a filter of this size.  Upstream: BloomFilter.isValid."""
        if data is None or data.bit_pos is None:
            return False
        return (data.bit_num, len(data.bit_pos)) == (self.bit_num, self.positions_count)


def _log(base: float, number: float) -> float:
    return math.log(number) / math.log(base)  # as upstream, whose quotient may be off by a bit


# MurmurHash3 --------------------------------------------------------------------------


_MASK = (1 << 64) - 1
_C1, _C2 = 0x87C37B91114253D5, 0x4CF5AD432745937F
_BLOCK_BYTES = 16


def _murmur3(data: bytes) -> int:
    """The first 64 of the 128 bits."""
    h1 = h2 = 0
    whole = len(data) - len(data) % _BLOCK_BYTES
    for k1, k2 in struct.iter_unpack("<QQ", data[:whole]):
        h1 = (_rotated(h1 ^ _mixed(k1, _C1, 31, _C2), 27) + h2) * 5 + 0x52DCE729 & _MASK
        h2 = (_rotated(h2 ^ _mixed(k2, _C2, 33, _C1), 31) + h1) * 5 + 0x38495AB5 & _MASK
    k1, k2 = struct.unpack("<QQ", data[whole:].ljust(_BLOCK_BYTES, b"\0"))
    h1 ^= _mixed(k1, _C1, 31, _C2) ^ len(data)
    h2 ^= _mixed(k2, _C2, 33, _C1) ^ len(data)
    h1 = h1 + h2 & _MASK
    h2 = h2 + h1 & _MASK
    return _finished(h1) + _finished(h2) & _MASK


def _mixed(k: int, first: int, shift: int, second: int) -> int:
    return _rotated(k * first & _MASK, shift) * second & _MASK


def _rotated(number: int, shift: int) -> int:
    number &= _MASK
    return number << shift & _MASK | number >> 64 - shift


def _finished(h: int) -> int:
    h = (h ^ h >> 33) * 0xFF51AFD7ED558CCD & _MASK
    h = (h ^ h >> 33) * 0xC4CEB9FE1A85EC53 & _MASK
    return h ^ h >> 33
