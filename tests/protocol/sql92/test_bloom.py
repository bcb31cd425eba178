"""The positions of a group in a Bloom filter equal the recorded ones."""

from __future__ import annotations

import pytest

from rocketmq_emulator.protocol.bodies.groups import BloomFilterData
from rocketmq_emulator.protocol.sql92.bloom import BloomFilter
from tests.support.golden_data import cases

CASES = cases("subscription.jsonl", "bloom")


@pytest.mark.parametrize("case", CASES, ids=[case["id"] for case in CASES])
def test_positions_and_size_are_those_of_upstream(case) -> None:
    given, out = case["in"], case["out"]
    bloom = BloomFilter(given["f"], given["n"])
    assert (bloom.positions_count, bloom.bit_num) == (out["k"], out["m"])
    data = bloom.generate(given["key"])
    assert list(data.bit_pos or ()) == out["positions"]
    bits = bytearray(bloom.bit_num // 8)
    for position in data.bit_pos or ():
        bits[position // 8] |= 1 << position % 8
    assert bits.hex() == out["bits"]
    other = bloom.generate(given["other"]).bit_pos or ()
    assert all(bits[n // 8] >> n % 8 & 1 for n in other) is out["other_hit"]


def test_data_of_another_size_is_not_valid() -> None:
    bloom = BloomFilter(20, 32)
    assert bloom.is_valid(bloom.generate("g#T"))
    assert not bloom.is_valid(BloomFilter(20, 64).generate("g#T"))
    assert not bloom.is_valid(BloomFilterData(bit_num=bloom.bit_num, bit_pos=(1,)))
    assert not bloom.is_valid(BloomFilterData(bit_num=bloom.bit_num))
    assert not bloom.is_valid(None)


@pytest.mark.parametrize("length", [0, 1, 7, 8, 15, 16, 17, 31, 32, 33])
def test_a_key_of_any_length_has_positions_within_the_filter(length: int) -> None:
    bloom = BloomFilter(1, 10)
    positions = bloom.generate("k" * length).bit_pos
    assert positions is not None
    assert len(positions) == bloom.positions_count == 7
    assert all(0 <= position < bloom.bit_num for position in positions)
