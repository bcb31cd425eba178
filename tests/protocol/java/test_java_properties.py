"""Java properties files are read and written as by ``java.util.Properties``."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rocketmq_emulator.protocol.java.java_properties import (
    TEXT_CHARS_MAX,
    TextTooLong,
    parse,
    parse_bytes,
    render,
)
from tests.support import golden_data


@pytest.mark.parametrize(
    "case",
    golden_data.cases("ids.jsonl", "string_to_properties_file"),
    ids=lambda case: case["id"],
)
def test_properties_are_read_as_java_reads_them(case) -> None:
    if case["out"] is None:
        with pytest.raises(ValueError, match="malformed"):
            parse(case["in"]["text"])
    else:
        assert parse(case["in"]["text"]) == case["out"]


def test_escapes_continuations_and_comments_are_understood() -> None:
    text = "# c\n! c\r\n a\\=b = \\u4e3b\\t\\q\nlong=one\\\n   two\n\nonly\n"
    assert parse(text) == {"a=b": "主\tq", "long": "onetwo", "only": ""}


def test_a_file_is_read_as_latin_1_though_it_was_written_as_utf_8() -> None:
    assert parse_bytes("brokerName=é\n".encode("latin-1")) == {"brokerName": "é"}
    assert parse_bytes("brokerName=é\n".encode()) == {"brokerName": "Ã©"}
    assert parse_bytes(b"brokerName=\\u00e9\n") == {"brokerName": "é"}


def test_a_broken_unicode_escape_is_refused() -> None:
    with pytest.raises(ValueError, match="malformed"):
        parse("a=\\u12")


def test_what_is_written_is_sorted_and_reads_back() -> None:
    text = render({"b": "2", "a": "x y"})
    assert text == "a=x y\nb=2\n"
    assert parse(text) == {"a": "x y", "b": "2"}


@given(st.text(max_size=60).filter(lambda text: "\\u" not in text))
def test_any_text_is_some_properties(text: str) -> None:
    assert all(isinstance(value, str) for value in parse(text).values())


def test_a_text_that_is_too_long_is_refused_with_the_limit() -> None:
    assert parse("a" * TEXT_CHARS_MAX)
    with pytest.raises(TextTooLong, match=f"the limit is {TEXT_CHARS_MAX}"):
        parse("a" * (TEXT_CHARS_MAX + 1))
