"""A tag's code is exactly Java's hash code."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rocketmq_emulator.protocol.messages.subscription import java_hash, tag_code, to_int32
from tests.support.golden_data import cases


@pytest.mark.parametrize("line", ["4.9", "5.3"])
def test_a_tag_s_code_is_the_hash_the_real_filter_counts(line: str) -> None:
    for case in cases("subscription.jsonl", "tag_hash", line):
        assert tag_code(case["in"]["tag"]) == case["out"], case["id"]


@pytest.mark.parametrize("line", ["4.9", "5.3"])
def test_the_store_counts_it_the_same_whatever_the_filter_type(line: str) -> None:
    for case in cases("store.jsonl", "tags_code", line):
        assert tag_code(case["in"]["tags"]) == case["out"], case["id"]


@pytest.mark.parametrize("line", ["4.9", "5.3"])
def test_any_text_has_java_s_hash(line: str) -> None:
    for case in cases("ids.jsonl", "hash", line):
        assert java_hash(case["in"]["text"]) == case["out"]["java_hash_code"], case["id"]


@given(st.text(st.characters(codec=None)))
def test_ascii_and_other_text_are_counted_alike(text: str) -> None:
    code = 0
    for char in text:
        point = ord(char)
        units = [point]
        if point > 0xFFFF:
            units = [0xD800 + (point - 0x10000 >> 10), 0xDC00 + (point & 0x3FF)]
        for unit in units:
            code = 31 * code + unit
    assert java_hash(text) == to_int32(code)
