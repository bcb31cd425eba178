"""Bodies compared with the real classes: their exact text in 4.9 and 5.3, and foreign texts."""

from __future__ import annotations

import json
import re
import zlib
from typing import Any

import msgspec
import pytest

from rocketmq_emulator.protocol.bodies import (
    groups,
    offsets,
    registration,
    routes,
    running,
    stats,
    topics,
)
from rocketmq_emulator.protocol.bodies.body import (
    LAX_BYTES_MAX,
    Body,
    decode_body,
    decode_unlimited_body,
    encode_body,
    encode_config_file,
)
from rocketmq_emulator.protocol.bodies.registration import (
    RegisterBrokerBody,
    crc32,
    decode_register_broker,
    encode_register_broker,
    packed,
)
from rocketmq_emulator.protocol.bodies.topics import (
    TopicConfig,
    decode_topic_config,
    encode_topic_config,
)
from rocketmq_emulator.protocol.fields import BadFields
from rocketmq_emulator.protocol.java.java_convert import convert
from rocketmq_emulator.protocol.messages.subscription import SubscriptionData
from rocketmq_emulator.protocol.versions import R_4_9_7, R_5_3_3, Release
from tests.support.golden_data import cases
from tests.support.paths import GOLDEN

LINES = {"4.9": R_4_9_7, "5.3": R_5_3_3}

ODD_NAMES = {  # upstream's class: ours, where the names differ
    "GetConsumerListByGroupResponseBody": groups.GetConsumerListByGroupReply,
    "LockBatchResponseBody": groups.LockBatchReply,
    "UnlockBatchRequestBody": groups.LockBatchRequestBody,
    "QuerySubscriptionResponseBody": groups.QuerySubscriptionReply,
    "GetBrokerMemberGroupResponseBody": routes.GetBrokerMemberGroupReply,
    "QueryConsumeQueueResponseBody": stats.QueryConsumeQueueReply,
    "QueryAssignmentResponseBody": running.QueryAssignmentReply,
    "SetMessageRequestModeRequestBody": running.SetMessageRequestModeBody,
    "SubscriptionGroupManager": groups.SubscriptionGroupWrapper,
    "ConsumerFilterManager": groups.ConsumerFilterTable,
    "ConsumerOffsetManager": offsets.ConsumerOffsetSerializeWrapper,
}
MODULES = (groups, groups, offsets, registration, routes, running, stats, topics)


def class_of(name: str) -> Any:
    if name in ODD_NAMES:
        return ODD_NAMES[name]
    return next(getattr(module, name) for module in MODULES if hasattr(module, name))


def body_kinds() -> list[tuple[str, str]]:
    found = set()
    with (GOLDEN / "bodies.jsonl").open() as lines:
        for text in lines:
            case = json.loads(text)
            if case["kind"].startswith("body_"):
                found |= {(case["kind"], n) for n in LINES if case["line"] in (n, "both")}
    return sorted(found)


def sorted_sets(text: str) -> str:
    """The text with ``tagsSet`` and ``codeSet`` sorted: Java writes hash sets, we sort them."""
    return re.sub(
        r'"(?:tags|code)Set":(\[[^]]*\])',
        lambda found: json.dumps(sorted(json.loads(found[1])), ensure_ascii=False),
        text,
    )


@pytest.mark.parametrize(("kind", "line"), body_kinds())
def test_a_body_reads_and_writes_the_text_of_the_real_class(kind: str, line: str) -> None:
    for case in cases("bodies.jsonl", kind, line):
        cls, text = class_of(case["in"]["class"]), case["out"]["json"]
        body = decode_body(text.encode("utf-8", "surrogatepass"), cls)
        again = encode_body(body, LINES[line]).decode()
        assert sorted_sets(again) == sorted_sets(text), case["id"]
        if "standard_json" in case["out"]:
            standard = encode_body(body, LINES[line], standard=True).decode()
            assert standard == case["out"]["standard_json"], case["id"]


@pytest.mark.parametrize("line", LINES)
def test_a_registration_packs_and_unpacks_as_the_real_one(line: str) -> None:
    release = LINES[line]
    for case in cases("bodies.jsonl", "body_RegisterBrokerBody", line):
        out = case["out"]
        body = decode_body(out["json"].encode(), RegisterBrokerBody)
        assert crc32(out["json"].encode()) == out["json_crc32"]
        compressed = bytes.fromhex(out["compressed"])
        assert crc32(compressed) == out["compressed_crc32"]
        if "with \\" in out["json"]:
            continue  # a name with a space: the one-line form cannot contain it
        unpacked = decode_register_broker(compressed, release.version)
        assert packed(unpacked, release).hex() == out["inflated"], case["id"]
        # The one-line form lacks ``order`` and ``topicSysFlag``, so only names are compared.
        table = body.topic_config_serialize_wrapper.topic_config_table
        assert set(unpacked.topic_config_serialize_wrapper.topic_config_table) == set(table)
        ours = encode_register_broker(body, release, compressed=True)
        assert ours[:2] == b"\x78\xda"
        assert len(zlib.decompress(ours)) == len(out["inflated"]) // 2
        assert decode_register_broker(out["json"].encode(), release.version) == body


def test_a_damaged_registration_is_refused() -> None:
    good = encode_register_broker(RegisterBrokerBody(), R_5_3_3, compressed=True)
    for bad in (good[:-6], good[:10], b"\x78" + good[5:], b"", b"[]", b"no"):
        with pytest.raises(BadFields):
            decode_register_broker(bad, R_5_3_3.version)
    with pytest.raises(BadFields):
        decode_register_broker(
            zlib.compress(b"\x00\x00\x00\x02{}\x00\x00\x00\x01"), R_4_9_7.version
        )


def config_of(fields: dict[str, Any]) -> TopicConfig:
    return convert({**fields, "attributes": pairs_of(fields.get("attributes"))}, TopicConfig)


def pairs_of(value: Any) -> dict[Any, Any]:
    return dict(value["map"]) if value else {}


@pytest.mark.parametrize(
    ("body", "member", "before", "since"),
    [
        (stats.OffsetWrapper(), "pullOffset", "5.0.0", "5.1.0"),
        (stats.ConsumeStatsList(), "totalInflightDiff", "5.0.0", "5.1.0"),
        (
            groups.SubscriptionGroupConfig(subscription_data_set=[]),
            "subscriptionDataSet",
            "5.1.0",
            "5.1.1",
        ),
        (groups.SubscriptionGroupConfig(), "attributes", "5.1.2", "5.1.3"),
        (groups.HeartbeatData(), "heartbeatFingerprint", "5.1.2", "5.1.3"),
        (stats.TopicStatsTable(), "topicPutTps", "5.3.2", "5.3.3"),
    ],
)
def test_members_that_came_after_5_0_are_not_written_before(
    body: Body, member: str, before: str, since: str
) -> None:
    assert member.encode() not in encode_body(body, Release.parse(before))
    assert member.encode() in encode_body(body, Release.parse(since))


@pytest.mark.parametrize("line", LINES)
def test_a_topic_config_has_a_one_line_form(line: str) -> None:
    for case in cases("bodies.jsonl", "topic_config_string", line):
        assert encode_topic_config(config_of(case["in"]["fields"]), LINES[line]) == case["out"]
    for case in cases("bodies.jsonl", "topic_config_decode", line):
        out = case["out"]
        if "exception" in out:
            with pytest.raises(ValueError):  # noqa: PT011 - any part may be wrong
                decode_topic_config(case["in"]["text"], LINES[line])
            continue
        want = config_of(out["fields"]) if out["ok"] else None
        assert decode_topic_config(case["in"]["text"], LINES[line]) == want, case["id"]


@pytest.mark.parametrize("line", LINES)
@pytest.mark.parametrize(
    "name",
    [
        "topics",
        "consumerOffset",
        "consumerFilter",
        "subscriptionGroup",
        "delayOffset",
        "kvConfig",
        "offsets",
    ],
)
def test_a_configuration_file_is_written_as_upstream_writes_it(name: str, line: str) -> None:
    for case in cases("config-files.jsonl", f"file_{name}", line):
        body = decode_body(case["out"].encode("utf-8"), class_of(case["in"]["class"]))
        assert encode_config_file(body, LINES[line]).decode() == case["out"], case["id"]


def java_names(fields: Any) -> Any:
    """A recorded object with the keys of its JSON text."""
    if isinstance(fields, list):
        return [java_names(item) for item in fields if item is not None]
    if not isinstance(fields, dict):
        return fields
    if set(fields) == {"map"}:
        return [[java_names(key), java_names(value)] for key, value in fields["map"]]
    named = {"isWithoutSub": "withoutSub"}
    return {named.get(key, key): java_names(value) for key, value in fields.items()}


def our_names(value: Any, release: Release) -> Any:
    """One of our objects in the form of ``java_names``."""
    if isinstance(value, msgspec.Struct):
        since = getattr(value, "since", {})
        return {
            f.encode_name: our_names(getattr(value, f.name), release)
            for f in msgspec.structs.fields(value)
            if getattr(value, f.name) is not None and release >= since.get(f.name, release)
        }
    if isinstance(value, dict):
        return [[our_names(k, release), our_names(v, release)] for k, v in value.items()]
    if isinstance(value, (list, tuple)):
        return [our_names(item, release) for item in value]
    return value


def is_within(part: Any, whole: Any) -> bool:
    """Does *whole* have all of *part*?  Fields that Java leaves null have defaults here."""
    if isinstance(part, dict):
        return all(is_within(value, whole.get(key)) for key, value in part.items())
    if isinstance(part, list):
        return len(part) == len(whole) and all(map(is_within, part, whole))
    return bool(part == whole)


@pytest.mark.parametrize("line", LINES)
def test_foreign_texts_are_read_as_fastjson_reads_them(line: str) -> None:
    for case in cases("bodies.jsonl", "decode_body", line):
        cls, out = class_of(case["in"]["class"]), case["out"]
        if case["id"] == "decode_body-33":
            continue  # a set in Java, a list here: it keeps a repeated name
        data = case["in"]["text"].encode("utf-8", "surrogatepass")
        if out is None or "exception" in out:
            with pytest.raises(BadFields):
                decode_body(data, cls)
            continue
        got = decode_body(data, cls)
        if "json_without_data_version" in out:
            want = json.loads(
                out["json_without_data_version"].replace("{0:", '{"0":').replace(",1:", ',"1":')
            )
            assert is_within(want, json.loads(encode_body(got, LINES[line], standard=True))), case[
                "id"
            ]
        else:
            assert is_within(java_names(out), our_names(got, LINES[line])), case["id"]


def test_a_heartbeat_of_an_old_cpp_client_is_understood() -> None:
    text = (
        b'{"clientID":"c","consumerDataSet":[{"consumeFromWhere":0,"consumeType":1,'
        b'"groupName":"g","messageModel":1,"subscriptionDataSet":[{"codeSet":["2598919"],'
        b'"subString":"TagA","subVersion":"1700000000000","tagsSet":["TagA"],"topic":"T"}]}]}\n'
    )
    (consumer,) = decode_body(text, groups.HeartbeatData).consumer_data_set
    assert consumer.consume_type == "CONSUME_PASSIVELY"
    assert consumer.message_model == "CLUSTERING"
    assert consumer.subscription_data_set == [
        SubscriptionData("T", "TagA", ("TagA",), (2598919,), 1700000000000)
    ]


@pytest.mark.parametrize("value", ["[" * 950, "[" * 100_000, "9" * 5_000])
def test_a_body_made_to_break_its_reader_is_refused(value: str) -> None:
    closing = "]" * value.count("[")
    with pytest.raises(BadFields):
        decode_body(f'{{"clientID":{value}{closing},x:1}}'.encode(), groups.HeartbeatData)


def test_a_long_lax_body_is_refused_with_the_limit_and_a_long_file_is_read() -> None:
    text = b"{clientID:'%b'}" % (b"c" * LAX_BYTES_MAX)
    with pytest.raises(BadFields, match=f"the limit is {LAX_BYTES_MAX}"):
        decode_body(text, groups.HeartbeatData)
    assert decode_unlimited_body(text, groups.HeartbeatData).client_id == "c" * LAX_BYTES_MAX
    strict = text.replace(b"clientID", b'"clientID"').replace(b"'", b'"')
    assert decode_body(strict, groups.HeartbeatData).client_id == "c" * LAX_BYTES_MAX


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        (offsets.ConsumerOffsetSerializeWrapper, b'{"offsetTable":{"T@g":{"0":null}}}'),
        (offsets.ConsumerOffsetSerializeWrapper, b'{"offsetTable":{"T@g":null}}'),
        (topics.TopicConfigSerializeWrapper, b'{"topicConfigTable":{"T":null}}'),
        (groups.SubscriptionGroupWrapper, b'{"subscriptionGroupTable":{"g":null}}'),
    ],
)
def test_a_null_in_a_concurrent_map_is_refused(kind: type[Body], text: bytes) -> None:
    with pytest.raises(BadFields, match="has a null"):
        decode_body(text, kind)


@pytest.mark.parametrize("text", [b'{"brokerAddrs":{"0":null}}', b'{"brokerAddrs":{0:null}}'])
def test_a_null_in_any_other_map_is_left_out(text: bytes) -> None:
    assert decode_body(text, routes.BrokerData).broker_addrs == {}


def test_a_date_fits_into_a_text_and_into_nothing_else() -> None:
    made = decode_body(b'{"groupName":new Date(1)}', groups.ProducerData)
    assert made.group_name == "Thu Jan 01 00:00:00 UTC 1970"
    assert decode_body(b'{"nobody knows":new Date(1)}', groups.ProducerData).group_name is None
    with pytest.raises(BadFields, match="is no date"):
        decode_body(b'{"retryQueueNums":new Date(1)}', groups.SubscriptionGroupConfig)
