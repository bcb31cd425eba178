"""The finished studies: pages contain the numbers of the shipped data, and runnable commands."""

from __future__ import annotations

import re
import shlex
from xml.etree import ElementTree as ET

import pytest

from docs.generate import study_pictures, study_tables
from docs.generate.penalty_formula import share_alike, share_drawn, share_of_spells
from docs.generate.studies import PAGES, STUDIES, shipped, with_tables
from docs.generate.study_data import data, one, pooled
from docs.generate.study_idle import computed_s
from docs.generate.study_penalties import (
    DRAWN_WELL_S,
    ILL_S,
    PENALTY_S,
    SLOW_S,
    WELL_S,
    computed_alike,
)
from docs.generate.study_skew import RESTARTS
from rocketmq_emulator.scenarios.catalog.finding import find_question, load
from rocketmq_emulator.scenarios.files.parameters import parameter_values
from rocketmq_emulator.scenarios.library.penalties import lengths

DATA_BYTES_MAX = 1_000_000
HELD = "## What is varied, and what is held fixed"


def page_of(name: str) -> str:
    return (PAGES / f"{name}.md").read_text()


def words_of(words: str) -> tuple[str, list[tuple[str, str]]]:
    """The scenario of a sweep, and its options with their values."""
    scenario, *options = shlex.split(words)
    return scenario, list(zip(options[::2], options[1::2], strict=True))


def parameters_of(scenario: str) -> dict[str, object]:
    question = find_question(scenario)
    return dict(question.parameters if question else load(scenario).parameters)


@pytest.mark.parametrize("name", STUDIES)
def test_the_tables_of_a_study_are_made_from_the_data_that_are_shipped(name) -> None:
    page = page_of(name)
    assert with_tables(page, name) == page, "python -m docs.generate.studies --tables"
    assert set(study_tables.SECTIONS) == set(STUDIES)


def test_the_shipped_data_are_small_and_nothing_else_lies_there() -> None:
    files = {path.name: path.stat().st_size for path in (PAGES / "data").iterdir()}
    assert set(files) == {path.name for path in shipped()}
    assert sum(files.values()) < DATA_BYTES_MAX


@pytest.mark.parametrize("name", STUDIES)
def test_a_page_shows_its_picture_which_is_made_from_the_data(name) -> None:
    picture = (PAGES / f"{name}.svg").read_text()
    assert f"]({name}.svg)" in page_of(name)
    assert picture == study_pictures.PICTURES[name](), "python -m docs.generate.studies --tables"
    assert "http" not in picture.replace("http://www.w3.org", "")
    assert ET.fromstring(picture).tag.endswith("svg")  # noqa: S314  # our own


@pytest.mark.parametrize("name", STUDIES)
def test_a_page_has_the_commands_of_its_sweeps_and_their_data(name) -> None:
    page = page_of(name)
    for key, sweep in STUDIES[name].items():
        assert f"rmqemu sweep {sweep.words} -o {key}" in page
        assert f"](data/{key}.csv)" in page


@pytest.mark.parametrize("name", STUDIES)
def test_what_a_study_varies_are_parameters_of_its_scenario(name) -> None:
    for sweep in STUDIES[name].values():
        scenario, options = words_of(sweep.words)
        known = parameters_of(scenario)
        for option, text in options:
            if option in ("--vary", "--set"):
                name_of, _, given = text.partition("=")
                first = given.split(",")[0].partition("..")[0]
                _, problems = parameter_values(known, {name_of: first})
                assert problems == [], text


@pytest.mark.parametrize("name", STUDIES)
def test_every_parameter_of_a_study_is_varied_or_said_to_be_held_fixed(name) -> None:
    said = page_of(name).partition(HELD)[2].partition("\n## ")[0]
    varied, held = (
        set(re.findall(r"`(\w+)`", part)) for part in said.partition("**Held fixed")[::2]
    )
    assert varied, f"{HELD} lacks: **Held fixed"
    for sweep in STUDIES[name].values():
        scenario, options = words_of(sweep.words)
        swept = {text.partition("=")[0] for option, text in options if option == "--vary"}
        assert swept <= varied
        assert set(parameters_of(scenario)) - swept <= varied | held
        assert not held & swept


# Idle members ------------------------------------------------------------------------------


@pytest.mark.parametrize("strategy", ["averagely", "by_circle"])
@pytest.mark.parametrize("members", [4, 8])
@pytest.mark.parametrize("place", ["first", "middle", "last"])
def test_clusters_idle_for_as_long_as_the_arithmetic_says(strategy, members, place) -> None:
    """In every run, for each member that leaves and each order of ids."""
    at = {"strategy": strategy, "members": members, "read_only": place}
    found = pooled("idle-runs", "no_load_s", **at)
    computed = computed_s(strategy, members, place)
    assert [found.least, found.most] == pytest.approx([computed] * 2, abs=1)


def test_nobody_idles_while_there_is_a_backlog() -> None:
    assert pooled("idle-backlog", "no_load_s").most < 1
    assert pooled("idle-runs", "no_load_s").most > 100


def test_the_order_of_ids_makes_no_difference_to_a_cluster() -> None:
    for strategy in ("averagely", "by_circle"):
        for members in (4, 8):
            at = {"strategy": strategy, "members": members}
            started, reverse = (
                pooled("idle-runs", "no_load_s", order_of_ids=order, **at).mean
                for order in ("started", "reversed")
            )
            assert started == pytest.approx(reverse, abs=1), at


# Penalties ---------------------------------------------------------------------------------


def test_the_computed_share_of_alike_spells_is_that_of_the_runs() -> None:
    """With 5.1.4 the moment when the round robin reaches the broker matters: 2 s are short."""
    for avoids, within in (("4.9", 0.05), ("5.1.4", 0.1)):
        for ill_s in ILL_S:
            for well_s in WELL_S:
                at = {"avoids": avoids, "ill_s": ill_s, "well_s": well_s}
                found = pooled("penalty-spells", "broker_share_well", **at).mean
                computed = computed_alike(avoids, ill_s, well_s)
                assert found == pytest.approx(computed, abs=within), at


def test_the_computed_share_of_drawn_spells_is_that_of_the_runs() -> None:
    for avoids in ("4.9", "5.1.4"):
        for well_s in DRAWN_WELL_S:
            found = pooled("penalty-drawn", "broker_share_well", avoids=avoids, well_s=well_s)
            computed = share_drawn(10, well_s, PENALTY_S[avoids], SLOW_S)
            assert abs(found.mean - computed) <= found.half + 0.03, (avoids, well_s)


@pytest.mark.parametrize("penalty_s", [2, 30, 60, 120])
@pytest.mark.parametrize("well_s", [5, 20, 60])
def test_the_formula_of_drawn_spells_is_what_many_of_them_come_to(penalty_s, well_s) -> None:
    drawn = share_of_spells(lengths(1, 10, well_s, 20_000), penalty_s, SLOW_S)
    assert share_drawn(10, well_s, penalty_s, SLOW_S) == pytest.approx(drawn, abs=0.025)


@pytest.mark.parametrize("well_s", [25, 30, 40, 60])
def test_the_formula_of_long_spells_is_what_they_come_to(well_s) -> None:
    assert share_alike(10, well_s, 30, SLOW_S) == pytest.approx(
        share_of_spells([(10, well_s)] * 1_000, 30, SLOW_S), abs=0.001
    )


def test_the_example_of_a_study_says_what_the_runs_say() -> None:
    page = " ".join((PAGES.parent / "study.md").read_text().split())
    of_4_9 = {"avoids": "4.9"}
    alike = [
        pooled("penalty-spells", "broker_share_well", ill_s=10, well_s=well_s, **of_4_9).mean
        for well_s in (25, 30, 40)
    ]
    drawn = pooled("penalty-drawn", "broker_share_well", well_s=20, **of_4_9).mean
    first, second, third = (f"{share * 100:.0f}" for share in alike)
    assert f"the broker gets {first}, {second} and {third} % of the sends" in page
    assert f"20 s on average, it gets {drawn * 100:.0f} %" in page


# Skew --------------------------------------------------------------------------------------


def test_the_formulas_of_a_rolling_restart_hold_for_many_queues() -> None:
    for strategy, formula in RESTARTS.items():
        for members in (2, 3, 5, 10, 20):
            at = {"strategy": strategy, "members": members, "surge": "false", "queues": 240}
            found = one("skew-restarts", "moves_restart_per_queue", **at)["mean"]
            assert found == pytest.approx(formula(members), rel=0.06), (strategy, members)


def test_the_place_of_the_leaver_matters_to_averagely_and_not_to_a_ring() -> None:
    moved = {
        (strategy, leaver): one(
            "skew-leavers", "moves_leave", strategy=strategy, leaver=leaver, members=5, queues=240
        )["mean"]
        / 240
        for strategy in ("averagely", "consistent_hash")
        for leaver in ("first", "middle", "last")
    }
    assert [moved["averagely", at] for at in ("first", "middle", "last")] == [0.5, 0.3, 0.5]
    ring = [moved["consistent_hash", at] for at in ("first", "middle", "last")]
    assert max(ring) - min(ring) < 0.05


def test_runs_that_are_pooled_are_one_sample() -> None:
    """The mean is weighted by runs; extremes are those of all rows; the spread has both parts."""
    rows = [row for row in data("idle-brokers") if row.at["strategy"] == "consistent_hash"]
    at = {"strategy": "consistent_hash", "members": 8}
    of_shape = [row for row in rows if row.at["members"] == "8"]
    found = pooled("idle-brokers", "read_only_idle_members", **at)
    assert found.runs == sum(row["runs"] for row in of_shape)
    assert found.mean == pytest.approx(sum(row["mean"] for row in of_shape) / 3)
    assert found.most == max(row["largest"] for row in of_shape)
    widths = [row["high_95"] - row["mean"] for row in of_shape]
    assert min(widths) / 2 < found.half < max(widths)
