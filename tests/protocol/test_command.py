"""Commands compared with the real class: all header classes, both serializations, odd headers."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rocketmq_emulator.protocol.command import (
    RESPONSE,
    RemotingCommand,
    decode_command,
    encode_command,
    encode_response,
    ext_of,
)
from rocketmq_emulator.protocol.fields import BadFields, Header, Int
from rocketmq_emulator.protocol.framing import JSON, ROCKETMQ, BadFrame, Frame, FrameDecoder
from rocketmq_emulator.protocol.java import java_json
from rocketmq_emulator.protocol.requests.offsets import OffsetReply
from rocketmq_emulator.protocol.requests.sending import SendMessageRequest
from rocketmq_emulator.protocol.versions import (
    LANGUAGE_CODES,
    R_4_9_7,
    R_5_3_3,
    Release,
    language_name,
)
from tests.support.golden_data import cases

LINES = [("4.9", R_4_9_7), ("5.3", R_5_3_3)]
TYPES = {"JSON": JSON, "ROCKETMQ": ROCKETMQ}


def taken_apart(data: bytes) -> Frame:
    decoder = FrameDecoder()
    decoder.feed(data)
    frame = decoder.next_frame()
    assert frame is not None
    assert decoder.waiting_bytes() == 0
    return frame


def shown(command: RemotingCommand) -> dict[str, Any]:
    """A command in the form of the recorded data."""
    names = {code: name for name, code in TYPES.items()}
    return {
        "code": command.code,
        "language": command.language,
        "version": command.version,
        "opaque": "invented" if command.opaque is None else command.opaque,
        "flag": command.flag,
        "remark": command.remark,
        "ext": command.fields() if bytes(command.ext) not in (b"", b"null") else None,
        "type": names[command.serialize_type],
        "body": command.body.hex() or None,
    }


def expected(decoded: dict[str, Any]) -> dict[str, Any]:
    """The recorded command without its null ext fields, which count as absent."""
    ext = decoded["ext"]
    if ext is not None:
        decoded = {**decoded, "ext": {k: v for k, v in ext.items() if v is not None}}
        decoded["ext"].pop("null", None) if decoded["type"] == "ROCKETMQ" else None
    return decoded


def rebuilt(given: dict[str, Any], ext: dict[str, str] | None) -> RemotingCommand:
    """The command that Java encoded."""
    command = RemotingCommand(
        code=given["code"],
        flag=given["flag"],
        opaque=given["opaque"],
        language=given["language"],
        version=given["version"],
        remark=given["remark"],
        body=bytes.fromhex(given["body"] or ""),
        serialize_type=TYPES[given["type"]],
    )
    if ext is not None:
        command.ext = ext_of(None, ext)
    return command


def bytes_must_be_equal(case: dict[str, Any]) -> bool:
    """Are the bytes kept?  Not of ROCKETMQ frames with a header object, or with a null field.

    Java writes a null as a key without a value, and the fields of some headers twice.
    """
    if case["in"]["type"] == "JSON":
        return True
    ext = case["out"]["decoded"]["ext"] or {}
    return case["in"]["fields"] is None and "null" not in ext and None not in ext.values()


@pytest.mark.parametrize(("line", "release"), LINES)
@pytest.mark.parametrize(
    ("file", "kind"),
    [
        ("remoting.jsonl", "frame_json"),
        ("remoting.jsonl", "frame_bare"),
        ("remoting-binary.jsonl", "frame_rocketmq"),
    ],
)
def test_frames_decode_and_encode_as_the_real_command_does(
    file: str, kind: str, line: str, release: Release
) -> None:
    for case in cases(file, kind, line):
        data = bytes.fromhex(case["out"]["frame"])
        frame = taken_apart(data)
        command = decode_command(frame, release)
        assert shown(command) == expected(case["out"]["decoded"]), case["id"]
        if bytes_must_be_equal(case):
            assert encode_command(command) == data, case["id"]
        ext = command.fields() if command.ext else None
        again = encode_command(rebuilt(case["in"], ext))
        want = {**shown(command), "ext": ext or (ext if command.serialize_type == JSON else None)}
        assert shown(decode_command(taken_apart(again), release)) == want, case["id"]


# Headers that the real decoder refuses or reads differently.  In ours a type hint names no
# class, a reference to the header itself is no text, a single closing brace is no object,
# a peer of 4.9 may have the language of Node, and -0 is 0.
OTHERWISE = {f"json_header-{number}" for number in (76, 77, 95, 59, 84)}


def understood(command: RemotingCommand) -> None:
    """Decode the ext fields, too: fields that are no map are refused only then."""
    try:
        command.fields()
    except BadFields as error:
        raise BadFrame(str(error)) from error


@pytest.mark.parametrize(("line", "release"), LINES)
def test_odd_headers_are_read_as_fastjson_reads_them(line: str, release: Release) -> None:
    for case in cases("remoting-malformed.jsonl", "json_header", line):
        if case["id"] in OTHERWISE:
            continue
        frame = taken_apart(bytes.fromhex(case["in"]["frame"]))
        decoded = case["out"]["decode"]
        if "exception" in decoded:
            with pytest.raises(BadFrame):
                understood(decode_command(frame, release))
            continue
        got, want = shown(decode_command(frame, release)), expected(decoded)
        if want["version"] == "own":
            want["version"] = got["version"]
        assert got == want, case["id"]


@pytest.mark.parametrize(("line", "release"), LINES)
def test_language_bytes_have_the_names_of_their_release(line: str, release: Release) -> None:
    for case in cases("remoting-malformed.jsonl", "language_byte", line):
        frame = taken_apart(bytes.fromhex(case["in"]["bytes"]))
        assert shown(decode_command(frame, release)) == case["out"]["decode"], case["id"]


def test_node_js_is_a_language_since_5_3_2() -> None:
    code = LANGUAGE_CODES["NODE_JS"]
    assert language_name(code, Release(5, 3, 1)) is None
    assert language_name(code, Release(5, 3, 2)) == "NODE_JS"


@pytest.mark.parametrize(("line", "release"), LINES)
def test_a_damaged_binary_header_reads_as_far_as_the_real_one(line: str, release: Release) -> None:
    for case in cases("remoting-malformed.jsonl", "bad_rocketmq", line):
        decoded = case["out"]["decode"]
        frame = taken_apart(bytes.fromhex(case["in"]["bytes"]))
        if "exception" in decoded:
            with pytest.raises(BadFrame):
                decode_command(frame, release)
        else:
            assert shown(decode_command(frame, release)) == expected(decoded), case["id"]


def test_no_header_and_no_extra_means_no_ext_fields_at_all() -> None:
    assert b"extFields" not in encode_command(RemotingCommand(code=34, ext=ext_of(None)))
    assert b'"extFields":{}' in encode_command(RemotingCommand(code=34, ext=ext_of(Header())))


class Odd(Header):
    name: str
    number: Int
    maybe: Int | None = None
    is_true: bool = False


def test_raw_json_values_are_taken_for_their_texts() -> None:
    header = b'{"opaque":1,"extFields":{"name":5,"number":7,"maybe":null,"isTrue":true}}'
    command = decode_command(Frame(JSON, header, b""))
    assert command.decode(Odd) == Odd(name="5", number=7, maybe=None, is_true=True)


@given(
    st.dictionaries(
        st.sampled_from(["name", "number", "maybe", "isTrue", "other"]),
        st.text(max_size=8)
        | st.integers().map(str)
        | st.sampled_from(["true", "null", "١٢", "+3"]),
    )
)
def test_random_ext_fields_are_a_header_or_bad_fields(ext: dict[str, str]) -> None:
    command = RemotingCommand(ext=ext_of(None, ext))
    assert java_json.read(bytes(command.ext)) == {
        k: v.encode("utf-8", "replace").decode() for k, v in ext.items()
    }
    try:
        found = command.decode(Odd)
    except BadFields:
        return
    assert isinstance(found.number, int)


def test_ext_fields_that_are_no_utf_8_close_the_channel_only_since_5() -> None:
    header = b'{"code":34,"opaque":1,"extFields":{"name":"\xc3","number":"1"}}'
    with pytest.raises(BadFrame):
        decode_command(Frame(JSON, header, b""), R_5_3_3)
    command = decode_command(Frame(JSON, header, b""), R_4_9_7)
    assert command.decode(Odd) == Odd(name="\ufffd", number=1)


@pytest.mark.parametrize("ext", [b"[]", b'"x"', b"5", b'{"name":"\\q"}'])
def test_ext_fields_that_are_no_map_are_refused_or_close_the_channel(ext: bytes) -> None:
    with pytest.raises((BadFields, BadFrame)):
        decode_command(Frame(JSON, b'{"opaque":1,"extFields":%b}' % ext, b"")).decode(Odd)


DEEP = [b"[" * depth + b"]" * depth for depth in (950, 100_000)]
LONG = [b"9" * 5_000, b"-" + b"1" * 100_000]


def read_whole(header: bytes) -> None:
    decode_command(Frame(JSON, header, b"")).decode(SendMessageRequest)


@pytest.mark.parametrize("value", [*DEEP, *LONG], ids=len)
@pytest.mark.parametrize("name", ["code", "opaque", "remark", "extFields"])
def test_a_header_made_to_break_its_reader_is_refused(name: str, value: bytes) -> None:
    with pytest.raises((BadFrame, BadFields)):
        read_whole(b'{"opaque":1,"%b":%b}' % (name.encode(), value))


@pytest.mark.parametrize("value", [*DEEP, *LONG], ids=len)
def test_ext_fields_made_to_break_their_reader_are_refused(value: bytes) -> None:
    with pytest.raises((BadFrame, BadFields)):
        read_whole(b'{"code":10,"opaque":1,"extFields":{"topic":%b}}' % value)


@given(
    opaque=st.none() | st.integers(-(2**31), 2**31 - 1),
    remark=st.none() | st.text(max_size=20),
    offset=st.none() | st.integers(0, 2**40),
    extra=st.none() | st.dictionaries(st.text(max_size=5), st.text(max_size=5), max_size=2),
    body=st.binary(max_size=20),
)
def test_a_response_is_encoded_as_the_command_it_stands_for(
    opaque: int | None,
    remark: str | None,
    offset: int | None,
    extra: dict[str, str] | None,
    body: bytes,
) -> None:
    header = None if offset is None else OffsetReply(offset=offset)
    command = RemotingCommand(
        code=17,
        flag=RESPONSE,
        opaque=opaque,
        version=407,
        remark=remark,
        ext=ext_of(header, extra),
        body=body,
    )
    request = RemotingCommand(code=10, opaque=opaque)
    given_parts: dict[str, Any] = {"remark": remark, "header": header, "extra": extra}
    found = encode_response(request, code=17, version=407, body=body, **given_parts)
    assert found == encode_command(command)
