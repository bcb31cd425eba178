"""UPDATE_AND_CREATE_TOPIC with attributes: what is stored, and what is refused."""

from __future__ import annotations

import pytest

from rocketmq_emulator.protocol.codes import ResponseCode
from tests.emulator.broker.test_broker_release_boundaries import client_of, create
from tests.support.broker.bench import Client
from tests.support.broker.store_makers import LAST_4, LAST_5

FIFO = "+message.type=FIFO"
SYSTEM_ERROR = int(ResponseCode.SYSTEM_ERROR)


def attributes_of(client: Client) -> dict[str, str] | None:
    topic = client.bench.broker.topics.get("t")
    return None if topic is None else topic.attributes


@pytest.mark.parametrize(
    ("release", "stored"), [(LAST_4, {}), ("5.0.0", {"message.type": "FIFO"})]
)
async def test_attributes_are_stored_without_their_sign_since_5_0(release, stored) -> None:
    client = client_of(release)
    create(client, attributes=FIFO)
    assert attributes_of(client) == stored


async def test_attributes_stay_when_a_later_request_names_none() -> None:
    client = client_of(LAST_5)
    create(client, attributes=FIFO)
    create(client, read_queue_nums=5)
    assert attributes_of(client) == {"message.type": "FIFO"}


async def test_attributes_are_changed_and_removed_by_later_requests() -> None:
    client = client_of(LAST_5)
    create(client, attributes=FIFO)
    create(client, attributes="+message.type=DELAY")
    assert attributes_of(client) == {"message.type": "DELAY"}
    create(client, attributes="-message.type")
    assert attributes_of(client) == {}


async def test_the_same_attributes_again_are_a_change_as_the_signed_names_are_compared() -> None:
    client = client_of(LAST_5)
    create(client, attributes=FIFO)
    before = client.bench.broker.topics.data_version
    create(client, attributes=FIFO)
    assert client.bench.broker.topics.data_version.counter == before.counter + 1


@pytest.mark.parametrize(
    ("attributes", "remark"),
    [
        ("message.type=FIFO", "add/alter attribute format is wrong: message.type"),
        ("message.type", "delete attribute format is wrong: message.type"),
        (f"{FIFO},{FIFO}", "key duplication: +message.type"),
        (
            "-message.type",
            "only add attribute is supported while creating topic. key: message.type",
        ),
        ("+color=red", "unsupported key: color"),
        ("+reserve.time=5", "unsupported key: reserve.time"),
        ("++message.type=FIFO", "kv string format wrong."),
    ],
)
async def test_bad_attributes_are_refused_and_no_topic_is_made(attributes, remark) -> None:
    client = client_of("5.2.0")
    assert create(client, attributes=attributes) == (SYSTEM_ERROR, remark)
    assert attributes_of(client) is None


@pytest.mark.parametrize(
    ("attributes", "remark"),
    [
        ("-message.type", "attempt to delete a nonexistent key: message.type"),
        ("+queue.type=BatchCQ", "attempt to update an unchangeable attribute. key: queue.type"),
        ("x+message.type=FIFO", "kv string format wrong."),
    ],
)
async def test_bad_changes_of_a_topic_are_refused(attributes, remark) -> None:
    client = client_of(LAST_5)
    create(client)
    assert create(client, attributes=attributes) == (SYSTEM_ERROR, remark)
    assert attributes_of(client) == {}


async def test_a_value_that_an_attribute_cannot_have_is_refused() -> None:
    code, remark = create(client_of(LAST_5), attributes="+message.type=PRIORITY")
    assert code == SYSTEM_ERROR
    assert remark is not None
    assert remark.startswith("value is not in set: [")


@pytest.mark.parametrize(("release", "taken"), [("5.0.0", False), ("5.1.0", True)])
async def test_a_cleanup_policy_is_known_since_5_1(release, taken) -> None:
    client = client_of(release)
    create(client, attributes="+cleanup.policy=COMPACTION")
    assert (attributes_of(client) == {"cleanup.policy": "COMPACTION"}) == taken


@pytest.mark.parametrize(
    ("release", "said"),
    [("5.1.3", "value is not in set"), ("5.1.4", "MIXED message type is not supported.")],
)
async def test_mixed_messages_are_refused_by_name_since_5_1_4(release, said) -> None:
    client = client_of(release)
    _, remark = create(client, attributes="+message.type=MIXED")
    assert remark is not None
    assert remark.startswith(said)
    assert attributes_of(client) is None
