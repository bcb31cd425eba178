"""Traces as official clients wrote them to real brokers, and what cannot be read."""

from __future__ import annotations

import pytest

from rocketmq_emulator.protocol.messages.properties import split_keys
from rocketmq_emulator.protocol.messages.traces import (
    EndTransactionTrace,
    PubTrace,
    RecallTrace,
    SubAfterTrace,
    SubBeforeTrace,
    decode_traces,
    encode_trace,
    keys_of,
)
from rocketmq_emulator.protocol.versions import Release
from tests.support.golden_data import golden_lines

RECORDED = list(golden_lines("traces.jsonl"))
NEWEST = Release(5, 3, 3)


def a_pub(**fields) -> PubTrace:
    given = {
        "at_ms": 1,
        "region": "r",
        "group": "g",
        "topic": "t",
        "msg_id": "ID",
        "tags": None,
        "keys": "k1 k2",
        "store_host": "h:1",
        "body_bytes": 5,
        "cost_ms": 2,
        "msg_type": 0,
        "offset_msg_id": "OFF",
        "ok": True,
    }
    return PubTrace(**{**given, **fields})


@pytest.mark.parametrize("line", RECORDED, ids=lambda line: f"{line['client']}-{line['broker']}")
def test_recorded_traces_are_read_and_written_again_byte_for_byte(line) -> None:
    traces, unreadable = decode_traces(line["body"].encode())
    assert unreadable == 0
    assert "".join(encode_trace(trace, NEWEST) for trace in traces) == line["body"]


def test_recorded_keys_are_those_of_the_traces() -> None:
    for line in RECORDED:
        traces = decode_traces(line["body"].encode()).traces
        assert set(keys_of(traces).split()) == set(line["keys"].split())


@pytest.mark.parametrize("client", ["java 4.9.8", "java 5.3.3"])
def test_recordings_of_java_have_every_kind_but_recalls(client: str) -> None:
    bodies = [line["body"] for line in RECORDED if line["client"] == client]
    traces = [trace for body in bodies for trace in decode_traces(body.encode()).traces]
    kinds = {type(trace) for trace in traces}
    assert kinds == {PubTrace, SubBeforeTrace, SubAfterTrace, EndTransactionTrace}
    returns = {trace.code for trace in traces if isinstance(trace, SubAfterTrace)}
    assert returns == {0, 2, 3, 4}  # success, exception, null, failed
    ends = [trace for trace in traces if isinstance(trace, EndTransactionTrace)]
    assert {(end.state, end.from_check) for end in ends} == {
        ("COMMIT_MESSAGE", False),
        ("ROLLBACK_MESSAGE", False),
        ("UNKNOW", False),
        ("COMMIT_MESSAGE", True),
    }
    assert {trace.msg_type for trace in traces if isinstance(trace, PubTrace)} == {0, 1, 3}


def test_recordings_of_go_name_the_client_s_host() -> None:
    bodies = [line["body"] for line in RECORDED if line["client"].startswith("go")]
    traces = [trace for body in bodies for trace in decode_traces(body.encode()).traces]
    assert {type(trace) for trace in traces} == {PubTrace, SubBeforeTrace, SubAfterTrace}
    assert all(trace.client_host for trace in traces if not isinstance(trace, SubAfterTrace))


def test_a_recall_is_read_as_it_is_written() -> None:
    recall = RecallTrace(at_ms=3, region="r", group="g", topic="t", msg_id="ID", ok=False)
    text = encode_trace(recall, NEWEST)
    assert text == "Recall\x013\x01r\x01g\x01t\x01ID\x01false\x02"
    assert decode_traces(text.encode()).traces == [recall]


def test_a_pub_of_old_clients_has_no_offset_id() -> None:
    text = encode_trace(a_pub(), NEWEST).replace("\x01OFF", "")
    assert decode_traces(text.encode()).traces == [a_pub(offset_msg_id=None)]


def test_before_4_8_0_the_end_of_a_call_has_neither_time_nor_group() -> None:
    after = SubAfterTrace(
        request_id="R", msg_id="ID", cost_ms=1, ok=True, keys=None, at_ms=9, group="g"
    )
    assert (
        encode_trace(after, Release(4, 7, 1))
        == "SubAfter\x01R\x01ID\x011\x01true\x01null\x010\x02"
    )
    assert encode_trace(after, Release(4, 8, 0)).endswith("\x010\x019\x01g\x02")
    read = decode_traces(encode_trace(after, Release(4, 7, 1)).encode()).traces
    assert read == [SubAfterTrace(request_id="R", msg_id="ID", cost_ms=1, ok=True, keys=None)]


def test_records_that_cannot_be_read_are_counted_and_the_others_are_read() -> None:
    good = encode_trace(a_pub(), NEWEST)
    bad = ("Nonsense\x01a\x02", "Pub\x011\x02", good.replace("Pub\x011", "Pub\x01" + "9" * 5_000))
    text = good.join(bad) + good
    traces, unreadable = decode_traces(text.encode() + b"\xff\xfe")
    assert traces == [a_pub()] * 3
    assert unreadable == len(bad) + 1


def test_keys_name_each_message_once_before_its_keys() -> None:
    assert split_keys(keys_of([a_pub(), a_pub(), a_pub(msg_id="B", keys="k2 k3")])) == [
        *("ID", "k1", "k2"),
        *("B", "k3"),
    ]
