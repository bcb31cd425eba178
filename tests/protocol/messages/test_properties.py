"""The property block is written and read as upstream does, with its defects."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rocketmq_emulator.protocol.messages.properties import (
    decode_properties,
    encode_properties,
    properties_text,
    split_keys,
)
from tests.support.golden_data import cases

LINES = ["4.9", "5.3"]
TRAILING = {"4.9": False, "5.3": True}
PLAIN_TEXT = st.text(
    st.characters(exclude_characters="\x01\x02", exclude_categories=["Cs"]), min_size=1
)


@pytest.mark.parametrize("line", LINES)
def test_a_block_is_written_as_the_real_one(line: str) -> None:
    for case in cases("message.jsonl", "properties_to_string", line):
        pairs = case["in"]["properties"]
        assert properties_text(pairs, trailing=TRAILING[line]) == case["out"], case["id"]


@pytest.mark.parametrize("line", LINES)
def test_a_block_is_read_as_the_real_one(line: str) -> None:
    for case in cases("message.jsonl", "string_to_properties", line):
        assert decode_properties(case["in"]["text"]) == case["out"], case["id"]


@given(st.dictionaries(PLAIN_TEXT, PLAIN_TEXT), st.booleans())
def test_what_is_written_is_read_back(properties: dict[str, str], trailing: bool) -> None:
    block = encode_properties(properties, trailing=trailing)
    assert decode_properties(block) == properties
    assert decode_properties(memoryview(block)) == properties


@given(st.binary())
def test_any_bytes_are_some_properties(block: bytes) -> None:
    found = decode_properties(block)
    assert all(name and value for name, value in found.items())


def test_a_lone_surrogate_becomes_a_question_mark() -> None:
    assert encode_properties({"k": "\ud800"}, trailing=False) == b"k\x01?"


def test_keys_are_separated_by_blanks() -> None:
    assert split_keys("k1 k2") == ["k1", "k2"]
    assert split_keys(None) == []
