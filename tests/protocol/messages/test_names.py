"""Names, namespaces and delay levels are checked and read as by the real classes."""

from __future__ import annotations

from typing import Any

import pytest

from rocketmq_emulator.protocol.messages import names
from rocketmq_emulator.protocol.messages.delay_levels import (
    DEFAULT_DELAY_LEVELS,
    parse_delay_levels,
    queue_of_level,
)
from rocketmq_emulator.protocol.messages.validation import (
    broker_refuses_group,
    broker_refuses_topic,
    client_refuses_body,
    client_refuses_group,
    client_refuses_send_to,
    client_refuses_topic,
    is_legal,
    log_refuses_topic,
)
from tests.support.golden_data import cases

LINES = ["4.9", "5.3"]
SYSTEM_TOPICS = {"4.9": names.SYSTEM_TOPICS, "5.3": names.SYSTEM_TOPICS_5_2}


def reason(verdict: Any) -> str | None:
    """A client's exception text without its link to the manual."""
    return None if verdict == "ok" else verdict["message"].split("\nFor more information")[0]


@pytest.mark.parametrize("line", LINES)
def test_prefixes_and_system_names_are_upstreams(line: str) -> None:
    for case in cases("ids.jsonl", "name", line):
        name, want = case["in"]["name"], case["out"]
        assert names.retry_topic(name) == want["retry"]
        assert names.dlq_topic(name) == want["dlq"]
        assert names.reply_topic(name) == want["reply"]
        assert names.is_system_consumer_group(name) == want["sys_consumer_group"]
        assert names.is_system_topic(name, SYSTEM_TOPICS[line]) == want["system_topic"]
        assert (name in names.TOPICS_NOT_SENDABLE) == want["not_allowed_send"]
        assert is_legal(name) != want["illegal"]


@pytest.mark.parametrize("line", LINES)
def test_which_names_are_accepted_and_why_others_are_refused(line: str) -> None:
    for case in cases("ids.jsonl", "name", line):
        name, want = case["in"]["name"], case["out"]
        assert client_refuses_topic(name) == reason(want["client_check_topic"])
        assert client_refuses_group(name) == reason(want["client_check_group"])
        broker = want["broker_validate"]
        assert (broker_refuses_topic(name) is None) == broker["valid"]
        assert (broker_refuses_topic(name) or "") == broker["remark"]


@pytest.mark.parametrize("line", LINES)
def test_a_missing_name_is_refused_as_blank(line: str) -> None:
    (case,) = cases("ids.jsonl", "name_null", line)
    assert client_refuses_topic(None) == reason(case["out"]["topic"])
    assert client_refuses_group(None) == reason(case["out"]["group"])
    assert broker_refuses_topic(None) is not None


@pytest.mark.parametrize("line", LINES)
def test_which_topics_are_the_system_s_own(line: str) -> None:
    (case,) = cases("ids.jsonl", "system_topics", line)
    assert sorted(SYSTEM_TOPICS[line]) == case["out"]["system"]
    assert sorted(names.TOPICS_NOT_SENDABLE) == case["out"]["not_allowed_send"]


def test_retry_and_dead_letter_topics_are_known_by_their_prefix() -> None:
    assert names.is_retry_topic("%RETRY%g")
    assert names.is_dlq_topic("%DLQ%g")
    assert not names.is_retry_topic("%DLQ%g")
    assert not names.is_dlq_topic("topic")


@pytest.mark.parametrize("line", LINES)
def test_delay_levels_are_read_as_far_as_upstream_reads_them(line: str) -> None:
    for case in cases("store.jsonl", "delay_levels", line):
        levels, want = parse_delay_levels(case["in"]["message_delay_level"]), case["out"]
        assert levels.is_valid == want["parsed"], case["id"]
        assert levels.level_max == want["max_level"], case["id"]
        assert {str(level): ms for level, ms in levels.delay_ms.items()} == want["table"]
        due = [levels.deliver_ms(n, case["in"]["store_timestamp"]) for n in case["in"]["levels"]]
        assert due == want["deliver_timestamps"], case["id"]


@pytest.mark.parametrize("line", LINES)
def test_every_level_has_its_queue(line: str) -> None:
    for case in cases("store.jsonl", "delay_level_queue_id", line):
        level = case["in"]["level"]
        assert queue_of_level(level) == case["out"]


def test_a_level_beyond_the_last_is_the_last() -> None:
    levels = parse_delay_levels(DEFAULT_DELAY_LEVELS)
    assert levels.clamp(99) == levels.level_max == 18
    assert levels.clamp(3) == 3


def test_a_client_sends_bodies_of_a_byte_to_the_limit_and_to_no_topic_of_the_system() -> None:
    assert [client_refuses_body(size, 10) is None for size in (0, 1, 10, 11)] == [
        False,
        True,
        True,
        False,
    ]
    assert client_refuses_send_to("orders") is None
    assert client_refuses_send_to("SCHEDULE_TOPIC_XXXX") is not None
    assert client_refuses_topic("SCHEDULE_TOPIC_XXXX") is None


def test_a_broker_makes_groups_whose_names_are_legal_the_empty_one_included() -> None:
    named = {name: broker_refuses_group(name) is None for name in ("", "g", "g g", "g" * 256)}
    assert named == {"": True, "g": True, "g g": False, "g" * 256: False}


def test_the_log_stores_longer_topics_of_retries_only_and_only_on_5_x() -> None:
    long, retry = b"t" * 128, b"%RETRY%" + b"t" * 248
    assert log_refuses_topic(b"t" * 127, long_retry_topics=False) is None
    assert log_refuses_topic(long, long_retry_topics=True) is not None
    assert log_refuses_topic(retry, long_retry_topics=True) is None
    assert log_refuses_topic(retry, long_retry_topics=False) is not None
    assert log_refuses_topic(retry + b"t", long_retry_topics=True) is not None
