"""Misuses: what is one and what is not, each reported once, and what brokers report together."""

from __future__ import annotations

import pytest

from rocketmq_emulator.protocol.messages.misuses import (
    KEPT_MAX,
    MISUSES,
    UNMATCHED_MIN,
    WATCHED_MAX,
    FoundMisuse,
    MisuseReport,
    Misuses,
    WatchedTags,
    differing,
    in_delay,
    in_expression,
    merged,
)
from rocketmq_emulator.protocol.messages.properties import encode_properties
from rocketmq_emulator.protocol.messages.subscription import SQL92, build_subscription


def subscribed(*pairs: str):
    return {
        topic: build_subscription(topic, tags) for topic, tags in (p.split("=") for p in pairs)
    }


def name_of(found) -> str | None:
    return found[0] if found is not None else None


@pytest.mark.parametrize(
    ("expression", "name"),
    [
        ("*", None),
        ("TagA", None),
        ("TagA || TagB", None),
        ("TagA||TagB", None),
        ("in or out", "sql_as_tags"),
        ("ORDER", None),
        ("a | b", "single_bar"),
        ("a|b", "single_bar"),
        ("a || b | c", "single_bar"),
        ("price > 5", "sql_as_tags"),
        ("a=1 || b", "sql_as_tags"),
        ("colour IS NOT NULL", "sql_as_tags"),
    ],
)
def test_an_expression_with_one_bar_or_of_sql_is_a_misuse(expression, name) -> None:
    assert name_of(in_expression(build_subscription("t", expression))) == name


def test_an_expression_of_type_sql92_is_none() -> None:
    assert in_expression(build_subscription("t", "a > 5 | b", SQL92)) is None


@pytest.mark.parametrize(
    ("properties", "topic", "knows_times", "name"),
    [
        ({}, "t", False, None),
        ({"DELAY": "18"}, "t", False, None),
        ({"DELAY": "19"}, "t", False, "delay_beyond_table"),
        ({"DELAY": "19"}, "%RETRY%g", False, None),
        ({"DELAY": "later"}, "t", False, None),
        ({"TIMER_DELAY_MS": "9"}, "t", False, "delay_ignored"),
        ({"TIMER_DELIVER_MS": "9"}, "t", False, "delay_ignored"),
        ({"TIMER_DELAY_MS": "9"}, "t", True, None),
    ],
)
def test_a_delay_that_does_not_hold_is_a_misuse(properties, topic, knows_times, name) -> None:
    text = encode_properties(properties, trailing=True).decode()
    assert name_of(in_delay(topic, text, 18, knows_times=knows_times)) == name


@pytest.mark.parametrize(
    ("known", "given", "topics"),
    [
        (["t=a"], ["t=a"], []),
        (["t=a || b"], ["t=b||a"], []),
        (["t=a"], ["t=b"], ["t"]),
        (["t=*"], ["t=b"], ["t"]),
        (["t=*", "u=*"], ["t=*"], ["u"]),
        (["t=*", "%RETRY%g=*"], ["t=*"], []),
    ],
)
def test_members_differ_in_topics_and_in_tags_but_not_in_their_order(known, given, topics) -> None:
    found = list(differing(subscribed(*known), subscribed(*given).values(), "other"))
    assert [topic for topic, _ in found] == topics
    assert all("other with" in detail for _, detail in found)


def everybody(_group: str, _topic: str) -> bool:
    return True


def watching(tags: str) -> WatchedTags:
    watched = WatchedTags()
    watched.subscribed("g", "c", build_subscription("t", tags))
    return watched


def test_tags_that_match_nothing_are_warned_of_after_a_while() -> None:
    watched = watching("a || b")
    warned = [bool(watched.stored("t", "c", everybody)) for _ in range(UNMATCHED_MIN)]
    assert warned == [False] * (UNMATCHED_MIN - 1) + [True]
    (found,) = watched.unmatched()
    assert f"{UNMATCHED_MIN} messages were stored here, and the last has the tag 'c'" in found.text


def test_a_tag_in_another_case_is_warned_of_at_once() -> None:
    (found,) = watching("Paid").stored("t", "paid", everybody)
    assert (found.misuse, found.client, found.group) == ("tags_match_nothing", "c", "g")
    assert "1 message was stored here" in found.text


def test_tags_that_have_matched_once_are_not_watched_any_more() -> None:
    watched = watching("a")
    watched.stored("t", "b", everybody)
    assert watched.unmatched()
    watched.stored("t", "a", everybody)
    watched.subscribed("g", "c", build_subscription("t", "a", sub_version=9))
    assert (watched.open, watched.unmatched(), watched.matched()) == ({}, [], [("t", "g")])


def test_messages_count_only_while_the_group_subscribes() -> None:
    watched = watching("a")
    assert watched.stored("t", "A", lambda _group, _topic: False) == []
    assert watched.unmatched() == []


def test_other_tags_are_watched_anew_and_all_messages_not_at_all() -> None:
    watched = watching("a")
    watched.stored("t", "b", everybody)
    watched.subscribed("g", "c", build_subscription("t", "b"))
    assert watched.unmatched() == []
    watched.subscribed("g", "c", build_subscription("t", "*"))
    assert watched.open == {}


def test_the_watched_subscriptions_are_limited() -> None:
    watched = WatchedTags()
    for number in range(WATCHED_MAX + 1):
        watched.subscribed(f"g{number}", "c", build_subscription("t", "a"))
    assert len(watched.open["t"]) == WATCHED_MAX


def test_each_misuse_is_reported_once_and_so_many_are_kept() -> None:
    reported: list[FoundMisuse] = []
    misuses = Misuses(reported.append)
    for client in ("c", "d"):
        misuses.notice(FoundMisuse("single_bar", client, "g", "t", "'a|b'"))
    assert [found.client for found in reported] == ["c"]
    for number in range(KEPT_MAX + 5):
        misuses.notice(FoundMisuse("single_bar", "c", f"g{number}", "t"))
    assert len(reported) == KEPT_MAX == len(misuses.report().found)
    misuses.clear()
    misuses.notice(FoundMisuse("single_bar", "c", "g", "t"), is_reported=True)
    assert len(reported) == KEPT_MAX
    assert len(misuses.report().found) == 1


def test_tags_match_nothing_only_if_they_do_at_every_broker() -> None:
    lost = FoundMisuse("tags_match_nothing", "c", "g", "t", "…")
    other = FoundMisuse("single_bar", "c", "g", "t", "…")
    here = MisuseReport((lost, other), ())
    assert merged([here, here]) == (lost, other)
    assert merged([here, MisuseReport((), (("t", "g"),))]) == (other,)


OF_NO_TOPIC = {"client_id_shared"}  # the client is wrong whatever it subscribes


@pytest.mark.parametrize("name", MISUSES)
def test_each_sentence_names_client_group_topic_and_cure(name) -> None:
    text = FoundMisuse(name, "a-client", "a-group", "a-topic", "a-detail").text
    wanted = {"a-client", "a-group"} if name in OF_NO_TOPIC else {"a-client", "a-group", "a-topic"}
    assert wanted <= set(text.replace(",", " ").replace(":", " ").split())
    assert text.endswith(MISUSES[name].cure)
