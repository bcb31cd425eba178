"""The judge's own reading of SQL92 agrees with upstream's rules of unknown values."""

from __future__ import annotations

import itertools
import json

import pytest

from rocketmq_emulator.checks.state.message_labels import MessageLabels, labels_of, matches
from rocketmq_emulator.facts import MessageStored
from rocketmq_emulator.protocol.sql92.filters import compile_filter
from rocketmq_emulator.protocol.versions import R_5_3_3
from rocketmq_emulator.scenarios.weather.clients import AMOUNTS, REGIONS, SQL
from tests.support.checks.small_journals import Q0, AJournal, objections

RELEASE = "5.3.3"
EU = MessageLabels("TagA", ("region=eu",))
NOTHING = MessageLabels("", ())


@pytest.mark.parametrize(
    ("expression", "labels", "wanted"),
    [
        ("region = 'eu'", EU, True),
        ("NOT (amount > 5)", EU, False),  # unknown
        ("region = 'eu' OR amount > 5", EU, True),
        ("NOT (region = 'us' OR amount > 5)", EU, False),
        ("amount IS NULL AND TAGS = 'TagA'", EU, True),
        ("region IN ('us', 'eu')", EU, True),
        ("region NOT IN ('us')", NOTHING, False),
        ("amount > 5", MessageLabels("", ("amount=many",)), False),  # Java throws
        ("amount BETWEEN 2.5 AND 7", MessageLabels("", ("amount=2",)), False),
    ],
)
def test_unknown_is_not_delivered_under_not_either(
    expression: str, labels: MessageLabels, wanted: bool
) -> None:
    assert matches(expression, RELEASE, labels) is wanted


@pytest.mark.parametrize(
    ("expression", "labels"),
    [
        ("region = 'eu'", MessageLabels("TagA")),  # the broker does not filter, and notes none
        ("KEYS = '1'", EU),  # a property that no fact has
        ("region CONTAINS 'e'", EU),
        ("5 < amount", EU),
        ("region = ", EU),
    ],
)
def test_there_is_no_answer_about_what_the_journal_does_not_have(
    expression: str, labels: MessageLabels
) -> None:
    assert matches(expression, RELEASE, labels) is None


@pytest.mark.parametrize("expression", SQL)
def test_the_expressions_of_weather_have_the_answer_of_a_broker(expression: str) -> None:
    broker = compile_filter(expression, R_5_3_3)
    for region, amount in itertools.product(REGIONS, AMOUNTS):
        named = {n: v for n, v in (("region", region), ("amount", amount)) if v}
        labels = labels_of(MessageStored(Q0, 0, 0, "k", 1, "", "", pairs_of(named)))
        assert matches(expression, RELEASE, labels) is broker.matches(named)


def pairs_of(named: dict[str, str]) -> tuple[str, ...]:
    return tuple(f"{name}={value}" for name, value in sorted(named.items()))


def a_group(expression: str, *, is_on: bool = True, **properties: str) -> AJournal:
    """A member that subscribes by *expression*, and one stored message with *properties*."""
    settings = {"property_filter": True} if is_on else {}
    plan = json.dumps({"cluster": {"broker_settings": settings}})
    journal = AJournal().runs(plan, release=RELEASE).store()
    journal.consumer("billing-1", expressions=(expression,)).claimed("billing-1", Q0)
    return journal.note(
        Q0.broker, MessageStored(Q0, 0, 0, "0-0", 100, "", "", pairs_of(properties))
    )


def test_a_message_that_the_expression_does_not_match_is_not_given_to_its_group() -> None:
    journal = a_group("SQL92: NOT (amount > 5)", region="eu").consumed("billing-1", 0)
    (said,) = objections(journal.ends().judged(), "filters")
    assert "with the tags '', region=eu, which it does not subscribe" in said
    wanted = a_group("SQL92: NOT (amount > 5)", amount="3").consumed("billing-1", 0)
    assert objections(wanted.ends().judged(), "filters") == []


def test_nothing_is_said_about_properties_that_a_broker_may_not_have_noted() -> None:
    journal = a_group("SQL92: NOT (amount > 5)", is_on=False).consumed("billing-1", 0)
    assert objections(journal.ends().judged(), "filters") == []


def test_a_message_that_the_expression_matches_is_owed_to_its_group() -> None:
    for amount, lost in (("3", 1), ("7", 0)):
        journal = a_group("SQL92: NOT (amount > 5)", amount=amount)
        journal.acknowledged(0).pulled(0, 1).committed(1)
        assert len(objections(journal.ends().judged(), "lost")) == lost
