"""The scenarios of studies vary each parameter on which their findings could depend by chance."""

from __future__ import annotations

import pytest

from rocketmq_emulator.cluster.fault_values import ReadOnly, SlowLink
from rocketmq_emulator.scenarios.catalog.finding import load
from rocketmq_emulator.scenarios.library.penalties import SPELL_S_MIN, lengths
from rocketmq_emulator.scenarios.plan.plan import Leave, Plan
from rocketmq_emulator.scenarios.plan.problems import BadScenario
from rocketmq_emulator.scenarios.running.virtual_run import finished_run


def read_only(**given: object) -> Plan:
    return load("read_only", {"brokers": 3, "members": 5, "leaves": True, **given})


def address_of(plan: Plan, member: str) -> str:
    return str(plan.consumers[0].settings_of[member]["client_ip"])


def broker_and_leaver(plan: Plan) -> tuple[str, str]:
    (broker,) = [step.does.broker for step in plan.timeline if isinstance(step.does, ReadOnly)]
    (leaver,) = [step.does.node for step in plan.timeline if isinstance(step.does, Leave)]
    return broker, leaver


def test_by_default_the_last_broker_is_read_only_and_the_last_member_leaves() -> None:
    plan = read_only()
    assert broker_and_leaver(plan) == ("broker-c", "billing-5")
    addresses = [address_of(plan, f"billing-{at}") for at in range(1, 6)]
    assert addresses == [f"10.1.0.{at}" for at in range(101, 106)]


@pytest.mark.parametrize(
    ("given", "broker"),
    [("first", "broker-a"), ("middle", "broker-b"), ("last", "broker-c"), ("broker-b",) * 2],
)
def test_the_broker_is_a_place_or_a_name(given, broker) -> None:
    assert broker_and_leaver(read_only(read_only=given))[0] == broker


@pytest.mark.parametrize("order", ["started", "reversed", "interleaved"])
def test_the_leaver_is_a_place_among_sorted_ids_whatever_their_order(order) -> None:
    plan = read_only(order_of_ids=order)
    members = sorted(
        (f"billing-{at}" for at in range(1, 6)), key=lambda name: address_of(plan, name)
    )
    for place, member in (("first", members[0]), ("middle", members[2]), ("last", members[4])):
        assert broker_and_leaver(read_only(order_of_ids=order, leaver=place))[1] == member


def test_orders_of_ids_differ() -> None:
    orders = {
        tuple(address_of(read_only(order_of_ids=order), f"billing-{at}") for at in range(1, 6))
        for order in ("started", "reversed", "interleaved")
    }
    assert len(orders) == 3


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"read_only": "broker-d"}, "read_only is one of first, middle, last, broker-a"),
        ({"leaver": "any"}, "leaver is one of"),
        ({"order_of_ids": "sorted"}, "order_of_ids is one of started"),
    ],
)
def test_words_that_there_are_not_are_refused_with_those_that_there_are(given, says) -> None:
    with pytest.raises(BadScenario, match=says):
        read_only(**given)


@pytest.mark.parametrize(("place", "idle"), [("first", 0), ("middle", 4), ("last", 0)])
def test_a_cluster_idles_as_many_members_as_the_arithmetic_says(place, idle) -> None:
    given = {"brokers": 3, "members": 8, "strategy": "by_circle", "read_only": place}
    row, _ = finished_run(load("read_only", given), 1)
    assert row.metrics["no_load_members"] == idle


# Spells ------------------------------------------------------------------------------------


def test_spells_are_alike_unless_they_are_drawn() -> None:
    assert list(lengths(0, 10, 20, 3)) == [(10, 20)] * 3


def test_drawn_spells_are_those_of_their_number_and_have_the_means_that_were_asked() -> None:
    drawn = list(lengths(7, 10, 20, 20_000))
    assert drawn[:5] == list(lengths(7, 10, 20, 5)) != list(lengths(8, 10, 20, 5))
    ill_s, well_s = (sum(each) / len(drawn) for each in zip(*drawn, strict=True))
    assert ill_s == pytest.approx(10 + SPELL_S_MIN, rel=0.03)
    assert well_s == pytest.approx(20 + SPELL_S_MIN, rel=0.03)


def spells_of(**given: object) -> list[tuple[str, int, int]]:
    """The target, begin and length of each slow spell, in ms."""
    plan = load("a_broker_flaps", {"flaps": 3, **given})
    return [
        (step.does.between[0], step.at_ms, step.for_ms or 0)
        for step in plan.timeline
        if isinstance(step.does, SlowLink)
    ]


def test_a_broker_that_flaps_is_ill_for_the_spells_that_were_drawn() -> None:
    now_ms, expected = 10_000, []
    for ill_s, well_s in lengths(2, 10, 20, 3):
        expected.append(("broker-b", now_ms, round(ill_s * 1_000)))
        now_ms += round(ill_s * 1_000) + round(well_s * 1_000)
    assert spells_of(spells=2) == expected
    assert spells_of() == [("broker-b", at, 10_000) for at in (10_000, 40_000, 70_000)]


def test_any_broker_of_any_number_can_be_the_one_that_flaps() -> None:
    assert {name for name, *_ in spells_of(brokers=3, broker="broker-c")} == {"broker-c"}
    with pytest.raises(BadScenario, match="broker is one of broker-a, broker-b, not"):
        spells_of(broker="broker-c")


@pytest.mark.parametrize(("well_s", "share"), [(15, 0.11), (20, 0), (25, 0.08), (40, 0.24)])
def test_ten_and_twenty_seconds_are_the_thirty_of_the_table_and_no_other_spell_is(
    well_s, share
) -> None:
    row, _ = finished_run(load("a_broker_flaps", {"well_s": well_s}), 1)
    assert row.metrics["broker_share_well"] == pytest.approx(share, abs=0.01)
