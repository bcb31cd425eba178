"""The put chain: transforms change a message, one after another, before it is stored."""

from __future__ import annotations

import msgspec
import pytest

from rocketmq_emulator.broker.store.appender import MessageToStore, PutRefused, PutStatus
from rocketmq_emulator.broker.store.put_chain import PutChain, dead_letters, set_delay_level
from rocketmq_emulator.protocol.messages.names import SCHEDULE_TOPIC
from tests.support.broker.store_makers import NOW, Rig, a_message

HALF_TOPIC = "RMQ_SYS_TRANS_HALF_TOPIC"
RETRY = "%RETRY%g"


def half(message: MessageToStore, _now_ms: int) -> MessageToStore:
    """A transform to a half message, which transactions would need."""
    return msgspec.structs.replace(message, topic=HALF_TOPIC, queue_id=0)


def refuse(_message: MessageToStore, _now_ms: int) -> MessageToStore:
    raise PutRefused(PutStatus.MESSAGE_ILLEGAL, "not this one")


def a_retry(times: int, retries_max: int | None, properties: str = "") -> MessageToStore:
    return a_message(
        b"again",
        properties,
        topic=RETRY,
        queue_id=3,
        reconsume_times=times,
        retries_max=retries_max,
    )


def test_a_transform_gets_what_the_one_before_it_made() -> None:
    rig = Rig()
    aside = set_delay_level(rig.store.levels, rig.store.check)
    PutChain(rig.store, (half, aside)).put(a_message(properties="DELAY\x013"), NOW)
    [message] = rig.messages(2, SCHEDULE_TOPIC)
    assert message.property_map()["REAL_TOPIC"] == HALF_TOPIC
    PutChain(rig.store, (aside, half)).put(a_message(properties="DELAY\x013"), NOW)
    assert rig.store.max_offset(HALF_TOPIC, 0) == 1


def test_what_a_transform_refuses_is_not_stored() -> None:
    rig = Rig()
    with pytest.raises(PutRefused):
        PutChain(rig.store, (half, refuse)).put(a_message(), NOW)
    assert rig.store.log.end_position == 0


def test_scheduled_tasks_learn_of_delayed_messages_only() -> None:
    rig, woken = Rig(), list[int]()
    rig.puts.on_delayed = lambda: woken.append(rig.store.log.end_position)
    rig.puts.put(a_message(), NOW)
    assert woken == []
    rig.puts.put(a_message(properties="DELAY\x011"), NOW)
    assert woken == [rig.store.log.end_position]


@pytest.mark.parametrize(
    ("times", "retries_max", "is_dead"),
    [(0, None, False), (99, None, False), (3, 3, False), (4, 3, True), (0, -1, True)],
)
def test_more_retries_than_the_limit_make_a_dead_letter(
    times: int, retries_max: int | None, *, is_dead: bool
) -> None:
    rig, made = Rig(), list[str]()
    chain = PutChain(
        rig.store, (dead_letters(lambda name, _ms: made.append(name), may_wait=True),)
    )
    chain.put(a_retry(times, retries_max), NOW)
    assert rig.bodies(0, "%DLQ%g") == [b"again"] * is_dead
    assert rig.bodies(3, RETRY) == [b"again"] * (not is_dead)
    assert made == ["%DLQ%g"] * is_dead


@pytest.mark.parametrize("may_wait", [True, False])
def test_a_dead_letter_keeps_its_delay_only_where_it_may_wait(*, may_wait: bool) -> None:
    rig = Rig()
    transforms = (
        dead_letters(lambda _name, _ms: None, may_wait=may_wait),
        set_delay_level(rig.store.levels, rig.store.check),
    )
    PutChain(rig.store, transforms).put(a_retry(9, 3, "TAGS\x01A\x02DELAY\x015"), NOW)
    assert rig.store.max_offset(SCHEDULE_TOPIC, 4) == may_wait
    assert rig.store.max_offset("%DLQ%g", 0) == (not may_wait)
