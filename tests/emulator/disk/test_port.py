"""The written length of a file, and erasing, by blocks: the same as by single bytes."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from rocketmq_emulator.disk.port import BLOCK_BYTES, erase, written_length

PLACES = st.lists(st.integers(0, 3 * BLOCK_BYTES - 1), max_size=4)


def written_at(places: list[int], length: int) -> memoryview:
    data = bytearray(3 * BLOCK_BYTES)
    for place in places:
        data[place] = 1
    return memoryview(data)[:length]


@given(PLACES, st.integers(0, 3 * BLOCK_BYTES))
def test_a_file_is_written_up_to_its_last_byte_that_is_not_zero(places, length) -> None:
    view = written_at(places, length)
    assert written_length(view) == len(bytes(view).rstrip(b"\0"))


@given(PLACES, st.integers(0, 3 * BLOCK_BYTES))
def test_what_is_erased_from_a_place_on_leaves_what_is_before_it(places, start) -> None:
    view = written_at(places, 3 * BLOCK_BYTES)
    before = bytes(view[:start])
    erase(view, start)
    assert bytes(view) == before + bytes(len(view) - start)
