"""The catalog of calls, their codes, and the calls that a release has."""

from __future__ import annotations

import msgspec
import pytest

from rocketmq_emulator.protocol import catalog
from rocketmq_emulator.protocol.codes import (
    REQUEST_NAMES,
    RESPONSE_NAMES,
    RequestCode,
    ResponseCode,
    response_name,
)
from rocketmq_emulator.protocol.queues import MessageQueue
from rocketmq_emulator.protocol.rpc import AnyRpc, Rpc
from rocketmq_emulator.protocol.versions import R_4_9_7, R_5_3_3, Release, version_desc

CALLS = pytest.mark.parametrize("rpc", catalog.CALLS, ids=lambda rpc: rpc.name)


@CALLS
def test_a_call_is_found_by_its_name_and_by_its_code(rpc: Rpc) -> None:
    assert getattr(catalog, rpc.name) is rpc
    assert rpc.code == getattr(RequestCode, rpc.name)
    for role in rpc.answered_by:
        assert catalog.by_code(rpc.code, role) is rpc


@CALLS
def test_every_field_of_a_call_has_a_name_of_its_own_on_the_wire(rpc: Rpc) -> None:
    for kind in (rpc.request, rpc.reply):
        names = [field.encode_name for field in msgspec.structs.fields(kind)]
        assert len(set(names)) == len(names)


def test_numbers_mean_one_thing_each() -> None:
    for codes, names in ((RequestCode, REQUEST_NAMES), (ResponseCode, RESPONSE_NAMES)):
        assert len(names) == sum(name.isupper() for name in vars(codes))


def test_a_number_may_mean_a_call_to_one_role_only() -> None:
    assert catalog.by_code(RequestCode.NOTIFY_CONSUMER_IDS_CHANGED, "client")
    assert catalog.by_code(RequestCode.NOTIFY_CONSUMER_IDS_CHANGED, "broker") is None
    assert catalog.by_code(9999, "broker") is None


def test_a_release_knows_only_the_calls_of_its_time() -> None:
    assert not catalog.POP_MESSAGE.exists_in(R_4_9_7)
    assert catalog.POP_MESSAGE.exists_in(R_5_3_3)
    assert catalog.REGISTER_FILTER_SERVER.exists_in(Release(4, 9, 5))
    assert not catalog.REGISTER_FILTER_SERVER.exists_in(R_4_9_7)


@pytest.mark.parametrize(
    ("rpc", "before", "since"),
    [
        (catalog.UPDATE_AND_CREATE_TOPIC_LIST, "5.2.0", "5.3.0"),
        (catalog.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST, "5.3.0", "5.3.1"),
        (catalog.BATCH_ACK_MESSAGE, "5.1.2", "5.1.3"),
        (catalog.RECALL_MESSAGE, "5.3.1", "5.3.2"),
        (catalog.CONTROLLER_APPLY_BROKER_ID, "5.1.0", "5.1.1"),
        (catalog.CONTROLLER_GET_NEXT_BROKER_ID, "5.1.0", "5.1.1"),
    ],
)
def test_calls_that_came_after_5_0_are_unknown_to_the_release_before(
    rpc: AnyRpc, before: str, since: str
) -> None:
    assert not rpc.exists_in(Release.parse(before))
    assert rpc.exists_in(Release.parse(since))


def test_codes_have_names_and_three_of_them_changed_their_meaning() -> None:
    assert REQUEST_NAMES[310] == "SEND_MESSAGE_V2"
    assert response_name(209, R_5_3_3) == "POLLING_FULL"
    assert response_name(209, R_4_9_7) == "UPDATE_AND_CREATE_ACL_CONFIG_FAILED"
    assert response_name(17, R_4_9_7) == "TOPIC_NOT_EXIST"
    assert response_name(-7, R_4_9_7) == "-7"


@pytest.mark.parametrize(
    ("text", "version"),
    [("4.0.0", 213), ("4.7.0", 353), ("4.9.7", 407), ("5.0.0", 413), ("5.3.3", 479)],
)
def test_a_release_has_the_ordinal_of_upstream(text: str, version: int) -> None:
    assert Release.parse(text).version == version
    assert version_desc(version) == f"V{text.replace('.', '_')}"


@pytest.mark.parametrize(
    ("version", "desc"),
    [
        (0, "V3_0_0_SNAPSHOT"),
        (1, "V3_0_0_ALPHA1"),
        (7, "V3_0_0_BETA6_SNAPSHOT"),
        (15, "V3_0_0_FINAL"),
        (16, "V3_0_1_SNAPSHOT"),
        (62, "V3_1_8_SNAPSHOT"),
        (121, "V3_4_9"),
        (122, "V3_5_1_SNAPSHOT"),
        (232, "V4_1_0_SNAPSHOT"),
        (611, "V5_9_9"),
        (612, "HIGHER_VERSION"),
        (99_999, "HIGHER_VERSION"),
    ],
)
def test_ordinals_have_upstreams_names(version: int, desc: str) -> None:
    assert version_desc(version) == desc


@pytest.mark.parametrize("text", ["", "4.9", "4.9.x", "4.9.7.1", "v4.9.7", "4.9.٧"])
def test_what_is_no_release_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="release"):
        Release.parse(text)


def test_queues_are_ordered_by_utf_16_code_units() -> None:
    high, low = MessageQueue("\uffff", "b", 0), MessageQueue("😀", "b", 0)
    assert sorted([high, low]) == [low, high]
    assert MessageQueue("T", "b", 2) < MessageQueue("T", "b", 10)
    assert MessageQueue("T", "b", 2) <= MessageQueue("T", "b", 2)
    assert MessageQueue("T", "c", 0) > MessageQueue("T", "b", 9)
    assert MessageQueue("T", "c", 0) >= MessageQueue("S", "z", 9)
    assert str(high) == "MessageQueue [topic=\uffff, brokerName=b, queueId=0]"


def test_each_call_stands_once_in_the_table() -> None:
    assert len(catalog.CALLS) == len(set(map(id, catalog.CALLS))) > 60
