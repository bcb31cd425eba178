"""Request and reply headers compared with the real classes: their keys and odd values."""

from __future__ import annotations

import inspect
import typing
from typing import Any

import msgspec
import pytest

from rocketmq_emulator.protocol.catalog import CALLS
from rocketmq_emulator.protocol.command import RemotingCommand, decode_command, ext_of
from rocketmq_emulator.protocol.fields import BadFields, Header, fields_of
from rocketmq_emulator.protocol.framing import FrameDecoder
from rocketmq_emulator.protocol.java import java_json
from rocketmq_emulator.protocol.requests import (
    admin,
    groups,
    nameserver,
    offsets,
    pulling,
    sending,
)
from rocketmq_emulator.protocol.versions import R_4_9_7
from tests.support.golden_data import cases

MODULES = (admin, groups, groups, offsets, pulling, pulling, nameserver, nameserver, sending)
ODD_NAMES: dict[str, type[Header]] = {  # upstream's class: ours, where the names differ
    "SendMessageRequestHeaderV2": sending.SendMessageRequestV2,
    "GetConsumeStatsInBrokerHeader": groups.GetConsumeStatsInBrokerRequest,
    "QueryCorrectionOffsetHeader": offsets.QueryCorrectionOffsetRequest,
    "ConsumeMessageDirectlyResultRequestHeader": groups.ConsumeMessageDirectlyRequest,
    "UnRegisterBrokerRequestHeader": nameserver.UnregisterBrokerRequest,
    "ExchangeHAInfoRequestHeader": nameserver.ExchangeHAInfo,
    "ExchangeHAInfoResponseHeader": nameserver.ExchangeHAInfo,
    "RegisterFilterServerRequestHeader": nameserver.RegisterFilterServer,
    "WipeWritePermOfBrokerRequestHeader": nameserver.WritePermOfBrokerRequest,
    "AddWritePermOfBrokerRequestHeader": nameserver.WritePermOfBrokerRequest,
    "GetMaxOffsetResponseHeader": offsets.OffsetReply,
    "GetMinOffsetResponseHeader": offsets.OffsetReply,
    "SearchOffsetResponseHeader": offsets.OffsetReply,
    "QueryConsumerOffsetResponseHeader": offsets.OffsetReply,
}
NOT_USED = {"CheckTransactionStateResponseHeader"}  # upstream never sends it
COMMON = {"ns", "nsd", "oway", "lo", "bname"}  # of all 5.x requests, unused here
LINES = ["4.9", "5.3"]


def class_of(name: str) -> type[Header]:
    if name in ODD_NAMES:
        return ODD_NAMES[name]
    ours = name.replace("RequestHeader", "Request").replace("ResponseHeader", "Reply")
    found = (getattr(module, ours) for module in MODULES if hasattr(module, ours))
    return next(found, Header)  # many have no fields


@pytest.mark.parametrize("line", LINES)
def test_every_field_of_a_real_header_arrives_and_goes_out_again(line: str) -> None:
    for case in cases("remoting.jsonl", "frame_json", line):
        given = case["in"]
        if given["header"] in NOT_USED:
            continue
        decoder = FrameDecoder()
        decoder.feed(bytes.fromhex(case["out"]["frame"]))
        (frame,) = decoder
        command = decode_command(frame)
        kind = class_of(given["header"])
        try:
            found = fields_of(command.decode(kind))
        except BadFields:
            # The recorded object lacks a field that its class requires.
            assert not is_complete(kind, given["fields"]), case["id"]
            continue
        names = set(given["fields"]) - COMMON
        sent = command.fields()
        assert {k: found.get(k) for k in names} == {k: sent.get(k) for k in names}, case["id"]


def is_complete(kind: type[Header], fields: dict[str, Any]) -> bool:
    ours = ext_of(None, {k: str(v) for k, v in fields.items() if v is not None})
    try:
        RemotingCommand(ext=ours).decode(kind)
    except BadFields:
        return False
    return True


@pytest.mark.parametrize("line", LINES)
def test_odd_values_are_read_as_the_real_header_reads_them(line: str) -> None:
    """Java reads a missing required field as null and fails later; we refuse it at once."""
    refused = 0
    for case in cases("remoting-malformed.jsonl", "header_parse", line):
        kind, out = class_of(case["in"]["header"]), case["out"]
        command = RemotingCommand(ext=ext_of(None, case["in"]["ext"]))
        try:
            found = fields_of(command.decode(kind))
        except BadFields:
            refused += 1
            assert "exception" in out or lacks_what_it_needs(kind, out), case["id"]
            continue
        assert "exception" not in out, case["id"]
        texts = {k: java_text(value) for k, value in out.items() if k not in COMMON}
        assert {k: found.get(k) for k in texts} == texts, case["id"]
    assert refused > 20


def lacks_what_it_needs(kind: type[Header], out: dict[str, Any]) -> bool:
    return any(
        parameter.default is inspect.Parameter.empty and wire_name(kind, name) not in out
        for name, parameter in inspect.signature(kind).parameters.items()
    )


def wire_name(kind: type[Header], name: str) -> str:
    return dict(zip(kind.__struct_fields__, kind.__struct_encode_fields__, strict=True))[name]


def java_text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def test_both_send_headers_have_the_same_attributes() -> None:
    assert sending.SendMessageRequest.__struct_fields__ == (
        sending.SendMessageRequestV2.__struct_fields__
    )
    assert sending.SendMessageRequestV2.__struct_encode_fields__ == tuple("abcdefghijklmn")


TEXTS = ("plain", '"\\ \n', "WAIT\x01true\x02", "\x1f", "\x7f", "\x85é", "\u2028", "\ud800")
KINDS = dict.fromkeys(kind for rpc in CALLS for kind in (rpc.request, rpc.reply))


@pytest.mark.parametrize("text", TEXTS, ids=ascii)
@pytest.mark.parametrize("kind", KINDS)
def test_a_header_is_written_as_the_map_of_its_fields(kind: type[Header], text: str) -> None:
    fields = msgspec.structs.fields(kind)
    whole = kind(**{field.name: a_value(field.type, text) for field in fields})
    least = kind(**{f.name: a_value(f.type, text) for f in fields if f.required})
    for header in (whole, least):
        assert bytes(ext_of(header)) == java_json.write_value(fields_of(header))
        assert ext_of(header, {"more": text}) == ext_of(None, {**fields_of(header), "more": text})


def a_value(hint: Any, text: str) -> str | int | bool:
    if typing.get_origin(hint) is typing.Literal:
        return str(typing.get_args(hint)[0])
    if "int" in str(hint):
        return 8
    return True if "bool" in str(hint) else text


def test_1_is_false_in_a_boolean_field_as_java_reads_it() -> None:
    ext = {"offset": "1", "group": "g", "delayLevel": "0", "unitMode": "1"}
    command = RemotingCommand(ext=ext_of(None, ext))
    assert command.decode(sending.ConsumerSendMsgBackRequest).unit_mode is False
    command = RemotingCommand(ext=ext_of(None, {**ext, "unitMode": "TRUE"}))
    assert command.decode(sending.ConsumerSendMsgBackRequest).unit_mode is True


def test_the_version_goes_out_as_the_release_says() -> None:
    assert R_4_9_7.version == 407
