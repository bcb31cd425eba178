"""The bytes between a master and its slaves, in any pieces."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rocketmq_emulator.protocol.replication import (
    FRAME_BYTES_MAX,
    BadStream,
    FrameReader,
    LogFrame,
    ReportReader,
    encode_frame,
    encode_report,
)

FRAMES = st.lists(
    st.builds(LogFrame, st.integers(0, 2**63 - 1 - 300), st.binary(max_size=300)), max_size=8
)


def test_a_report_is_eight_bytes_and_a_frame_twelve_and_its_data() -> None:
    assert encode_report(258) == b"\0\0\0\0\0\0\1\2"
    assert encode_frame(258, b"log") == b"\0\0\0\0\0\0\1\2\0\0\0\3log"


@given(FRAMES, st.lists(st.integers(0, 400), max_size=20))
def test_frames_are_the_same_in_whatever_pieces_they_come(
    sent: list[LogFrame], cuts: list[int]
) -> None:
    data = b"".join(encode_frame(*frame) for frame in sent)
    reader, found, at = FrameReader(), [], 0
    for size in [*cuts, len(data)]:
        reader.feed(data[at : at + size])
        found += reader.frames()
        at += size
    assert found == sent


def test_the_bytes_of_a_frame_stay_as_they_are_when_more_come() -> None:
    reader = FrameReader()
    reader.feed(encode_frame(0, b"first") + encode_frame(5, b"second")[:9])
    frames = list(reader.frames())
    reader.feed(encode_frame(5, b"second")[9:])
    assert [*frames, *reader.frames()] == [LogFrame(0, b"first"), LogFrame(5, b"second")]


def test_the_position_of_a_frame_is_known_before_it_is_whole() -> None:
    reader = FrameReader()
    reader.feed(encode_frame(77, b"some bytes")[:12])
    assert not list(reader.frames())
    assert reader.next_position == 77


@pytest.mark.parametrize("size", [-1, FRAME_BYTES_MAX])
def test_a_frame_of_an_impossible_size_ends_the_stream(size: int) -> None:
    reader = FrameReader()
    reader.feed(b"\0" * 8 + size.to_bytes(4, "big", signed=True))
    with pytest.raises(BadStream, match="a frame of"):
        list(reader.frames())


@pytest.mark.parametrize(("position", "data"), [(-1, b""), (-5, b"log"), (2**63 - 1, b"l")])
def test_a_frame_at_a_position_that_no_log_has_ends_the_stream(position: int, data: bytes) -> None:
    reader = FrameReader()
    reader.feed(encode_frame(position, data))
    with pytest.raises(BadStream, match="no log has that"):
        list(reader.frames())


def test_of_reports_that_come_together_the_last_counts_and_a_piece_waits() -> None:
    reader = ReportReader()
    data = encode_report(5) + encode_report(9)
    assert reader.feed(data[:3]) is None
    assert reader.feed(data[3:]) == 9
    assert reader.feed(encode_report(10)) == 10
