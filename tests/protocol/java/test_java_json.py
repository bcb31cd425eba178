"""fastjson's dialect of JSON: escapes, tolerated errors and line breaks."""

from __future__ import annotations

from decimal import Decimal

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rocketmq_emulator.protocol.java.java_json import (
    DEPTH_MAX,
    NotJson,
    read,
    read_tolerantly,
    strict_forms,
    text_of,
    write,
    write_pretty,
    write_texts,
)
from rocketmq_emulator.protocol.java.java_json_writer import STANDARD, Style, java_double
from rocketmq_emulator.protocol.queues import MessageQueue
from tests.support.golden_data import cases

QUEUE = MessageQueue("T", "b-a", 3)
(ESCAPES,) = (case["out"] for case in cases("bodies.jsonl", "json_escapes"))
CODE_POINTS = [*range(0xD800), *range(0xE000, 0x10000), 0xD800, 0xDC00]
SAMPLES = range(0x180)


def test_exactly_the_characters_that_fastjson_escapes_are_escaped() -> None:
    for code in CODE_POINTS:
        raw = chr(code)
        value = ESCAPES["value_not_raw"].get(f"{code:04x}", raw)
        assert write(raw).decode() == f'"{value}"', hex(code)
        key = ESCAPES["key_not_raw"].get(f"{code:04x}", f'"{raw}"')
        assert write_texts({raw: raw}).decode() == f'{{{key}:"{value}"}}', hex(code)


def test_the_standard_form_is_ascii() -> None:
    escapes = ESCAPES["standard_route_not_raw_below_0180_and_samples"]
    for code in (*SAMPLES, *(int(sample, 16) for sample in escapes)):
        text = write(chr(code), style=STANDARD).decode()
        assert text == f'"{escapes.get(f"{code:04x}", chr(code))}"', hex(code)
    assert write("😀", style=STANDARD) == b'"\\uD83D\\uDE00"'
    assert write({3: "c", 20: "b"}, style=STANDARD) == b'{"3":"c","20":"b"}'
    assert write(b"\xff\xff", style=STANDARD) == rb'"\/\/8="'


def test_keys_that_are_no_strings_stand_bare() -> None:
    assert write({"t": {0: 9, 1: 8}}) == b'{"t":{0:9,1:8}}'
    queue = b'{"brokerName":"b-a","queueId":3,"topic":"T"}'
    assert write({QUEUE: 7}) == b"{" + queue + b":7}"
    assert write([QUEUE, None, True]) == b"[" + queue + b",null,true]"


@given(st.text(), st.integers(-(2**31), 2**31 - 1))
def test_a_struct_that_msgspec_writes_is_what_the_writer_would_write(text: str, n: int) -> None:
    for queue in (MessageQueue(text, "b-a", n), MessageQueue("\x7f\u2028\ud800", text, n)):
        assert write([queue, queue]) == write([queue, queue], style=Style())


def test_nulls_are_left_out_of_objects_and_kept_in_lists() -> None:
    assert write({"a": None, "b": [None], "c": {}}) == b'{"b":[null],"c":{}}'


def test_sets_are_written_in_order_and_bytes_in_base64() -> None:
    assert write({"s": {"b", "a"}, "b": b"\x00\x01"}) == b'{"s":["a","b"],"b":"AAE="}'


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.0, "0.0"),
        (12.25, "12.25"),
        (1e7, "1.0E7"),
        (9_999_999.5, "9999999.5"),
        (123456789.123, "1.23456789123E8"),
        (9_999_999_999.9, "9.9999999999E9"),
        (1e-5, "1.0E-5"),
        (-0.001, "-0.001"),
        (-1.5e-7, "-1.5E-7"),
        (float("nan"), "null"),
        (float("inf"), "null"),
    ],
)
def test_doubles_look_as_in_java(value: float, text: str) -> None:
    assert java_double(value) == text


def test_the_pretty_form_breaks_lines_before_names_but_not_before_other_keys() -> None:
    assert write_pretty({"a": {"b": 1}, "c": {0: 1, 1: 2}, "d": {}}).decode() == (
        '{\n\t"a":{\n\t\t"b":1\n\t},\n\t"c":{0:1,1:2\n\t},\n\t"d":{}\n}'
    )


@pytest.mark.parametrize(
    ("text", "value"),
    [
        (b"{0:1,'a':'b',c:[1,,2,],}", {0: 1, "a": "b", "c": [1, 2]}),
        (b'{"a":1;/* no */"b":2,// no\n}', {"a": 1, "b": 2}),
        (b'{{"q":1}:2}', {'{"q":1}': 2}),
        (b'"\\x41\\0\\v\\/\\\'\\u4e2d"', "A\0\v/'中"),
        (b'"\\ud83d\\ude00 \\ud83d"', "😀 \ud83d"),
        (b'"a\nb\x01"', "a\nb\x01"),
        (b"[NaN,undefined,null,true,+5,010]", [None, None, None, True, 5, 10]),
        (b"\xef\xbb\xbf{}\x00\n", {}),
        (b"[1.0E10,1e3]", [Decimal("1.0E+10"), Decimal("1E+3")]),
    ],
)
def test_the_reader_takes_what_fastjson_takes(text: bytes, value: object) -> None:
    assert read(text) == value


@pytest.mark.parametrize(
    ("text", "at_ms"),
    [
        ("new Date(1)", 1),
        ("new  Foo ( -7 )", -7),
        ("new Date(99999999999999999999)", 7_766_279_631_452_241_919),  # overflows as in Java
    ],
)
def test_a_date_is_read_as_its_milliseconds(text: str, at_ms: int) -> None:
    found = read_tolerantly(text)
    assert found == at_ms
    assert write({"a": found}) == b'{"a":%d}' % at_ms


@pytest.mark.parametrize("text", ["new Date()", "new Date(1.5)", 'new Date("1")', "newDate(1)"])
def test_a_date_of_no_milliseconds_is_refused(text: str) -> None:
    with pytest.raises(NotJson):
        read_tolerantly(text)


@pytest.mark.parametrize(
    "text",
    ['{"a" 1}', "{", '{"a":', '"\\q"', '"open', "[1", "tru", "{} x", "", "{1.5:2}", "\\", "{:1}"],
)
def test_the_reader_refuses_what_fastjson_refuses(text: str) -> None:
    with pytest.raises(NotJson):
        read(text.encode())


def test_the_reader_goes_only_so_deep() -> None:
    assert read_tolerantly("[" * DEPTH_MAX + "]" * DEPTH_MAX)
    for deep in ("[" * 10_000, '{"a":' * 10_000, "{" * 10_000):
        with pytest.raises(NotJson):
            read_tolerantly(deep)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("x", "x"),
        (True, "true"),
        (5, "5"),
        (Decimal("1.0E+10"), "1.0E+10"),
        ({"z": 1, "b": [1, "2"]}, '{"b":[1,"2"],"z":1}'),
    ],
)
def test_any_value_has_a_text(value: object, text: str) -> None:
    assert text_of(value) == text


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(st.characters(codec="utf-8")),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
        max_leaves=20,
    )
)
def test_what_is_written_is_read_back(value: object) -> None:
    def without_nulls(part: object) -> object:
        if isinstance(part, dict):
            return {k: without_nulls(v) for k, v in part.items() if v is not None}
        return [without_nulls(item) for item in part] if isinstance(part, list) else part

    assert read_tolerantly(write(value).decode()) == without_nulls(value)


@pytest.mark.parametrize(
    "text",
    [
        "{'a':'it is \\'so\\'','b':[1,2,]}",
        '{a:"x\ny",$b:[true,,null],}',
        '{"a":"\\x41\\0\\v"}',
        "{'say':'\"hi\"',b:NaN}",
    ],
)
def test_most_lax_text_is_rewritten_and_not_read_character_by_character(text: str) -> None:
    *_, strict = strict_forms(text.encode())
    assert msgspec.json.decode(strict) == read_tolerantly(text)


PIECES = [
    *('"a"', "'b'", "'", '"', "\\", "\\\\", "\\x41", "\\u0041", "\\ud83d", "\\0", "\\v", "\\'"),
    *(
        '\\"',
        "{",
        "}",
        "[",
        "]",
        ":",
        ",",
        ";",
        "//",
        "/*",
        "*/",
        "\n",
        " ",
        "\x00",
        "\x01",
        "name",
    ),
    *("true", "null", "undefined", "NaN", "1", "-2", "+3", "010", "1.", "1e3", "é", '{"q":1}'),
    *("[1,,2,]", "{a:1,}", "{'a':'b'}", "'x\\x41'", '"\\\n"', "1e999999999999999999999"),
]


@given(st.lists(st.sampled_from(PIECES), max_size=12).map("".join))
def test_a_rewritten_text_has_the_value_of_the_tolerant_reader(text: str) -> None:
    try:
        found = read_tolerantly(text)
    except NotJson:
        with pytest.raises(NotJson):
            read(text.encode())
    else:
        assert repr(read(text.encode())) == repr(found)


@given(st.text(max_size=40))
def test_random_text_is_a_value_or_not_json(text: str) -> None:
    try:
        read_tolerantly(text)
    except NotJson:
        return
    assert text.strip()
