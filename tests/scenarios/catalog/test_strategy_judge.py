"""Findings of the judge of strategies, compared with known tables."""

from __future__ import annotations

import json

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from docs.generate.idleness import PAGE
from rocketmq_emulator.cli.commands.strategy import app, idle_table
from rocketmq_emulator.scenarios.catalog.strategy_judge import (
    GroupShape,
    IdleRow,
    StrategyFailed,
    finding,
)
from rocketmq_emulator.scenarios.plan.strategies import STRATEGIES, strategy_named

# topic and group; the smallest share, the largest, the queues that move when the last member
# leaves, and those of them that this member had
SKEW = [
    ("averagely", GroupShape(1, 8, 3), (2, 3, 3, 2)),
    ("averagely", GroupShape(1, 24, 5), (4, 5, 10, 4)),
    ("averagely", GroupShape(1, 24, 7), (3, 4, 6, 3)),
    ("averagely", GroupShape(1, 64, 10), (6, 7, 24, 6)),
    ("by_circle", GroupShape(1, 8, 3), (2, 3, 4, 2)),
    ("by_circle", GroupShape(1, 24, 5), (4, 5, 16, 4)),
    ("by_circle", GroupShape(1, 24, 7), (3, 4, 18, 3)),
    ("by_circle", GroupShape(1, 64, 10), (6, 7, 55, 6)),
]
READ_ONLY = [  # topic and group; members without work while a broker is read-only
    ("averagely", GroupShape(4, 4, 4), 1),
    ("averagely", GroupShape(4, 4, 8), 2),
    ("averagely", GroupShape(4, 4, 16), 4),
    ("averagely", GroupShape(3, 8, 6), 2),
    ("averagely", GroupShape(4, 4, 3), 0),
    ("by_circle", GroupShape(4, 4, 8), 0),
    ("by_circle", GroupShape(4, 4, 16), 4),
]
MINE = """
def backwards(queues, members, me):
    return list(reversed(queues))[members.index(me) :: len(members)]

def greedy(queues, members, me):
    return list(queues)

def broken(queues, members, me):
    return queues[me]

NUMBER = 7
"""


@pytest.fixture
def mine(tmp_path) -> str:
    (tmp_path / "mine.py").write_text(MINE)
    return str(tmp_path / "mine.py")


@pytest.mark.parametrize(("name", "shape", "expected"), SKEW)
def test_skew_and_moves_are_those_of_the_known_table(name, shape, expected) -> None:
    found = finding(STRATEGIES[name].allocate, shape)
    assert (found.least, found.most, found.moved_leave, found.left_leave) == expected


@pytest.mark.parametrize(("name", "shape", "idle"), READ_ONLY)
def test_members_without_work_are_those_of_issue_3465(name, shape, idle) -> None:
    assert finding(STRATEGIES[name].allocate, shape).idle_read_only == idle


def test_consistent_hash_moves_only_what_the_leaver_had() -> None:
    found = finding(STRATEGIES["consistent_hash"].allocate, GroupShape(2, 12, 5))
    assert found.moved_leave == found.left_leave
    assert found.most - found.least > 1


@given(
    st.sampled_from(sorted(STRATEGIES)),
    st.builds(GroupShape, st.integers(1, 4), st.integers(1, 9), st.integers(1, 12)),
)
def test_every_built_in_strategy_gives_each_queue_one_owner(name, shape) -> None:
    found = finding(STRATEGIES[name].allocate, shape)
    assert found.is_partition
    assert found.moved_leave >= (found.left_leave if shape.members > 1 else 0)


def test_one_s_own_function_is_judged_beside_the_others(mine) -> None:
    shown = CliRunner().invoke(
        app, ["judge", f"{mine}:backwards", "--shape", "2x4/3", "--no-runs"]
    )
    assert shown.exit_code == 0
    assert all(title in shown.output for title in ("mine.py:backwards", *STRATEGIES))
    assert max(map(len, shown.output.replace(mine, "mine.py").splitlines())) <= 81


def test_shares_that_do_not_fit_are_counted_and_end_with_1(mine) -> None:
    shown = CliRunner().invoke(app, ["judge", f"{mine}:greedy", "--shape", "1x4/2", "--json"])
    assert shown.exit_code == 1
    found = json.loads(shown.output)
    (one,) = found["shapes"][f"{mine}:greedy"]
    assert (one["doubled"], one["unowned"]) == (4, 0)
    greedy, averagely, by_circle, by_hash = found["at_work"]
    assert greedy["overlap_queue_s"] > 8 * 60
    assert averagely["moved_queues"] < by_circle["moved_queues"]
    assert by_hash["moved_queues"] == by_hash["necessary_moves"]
    assert max(each["settle_s"] for each in (averagely, by_circle, by_hash)) < 0.1


def test_a_function_that_raises_is_named_with_what_it_was_asked() -> None:
    with pytest.raises(StrategyFailed, match=r"TypeError.*for 10\.0\.0\.1@1 of 2 members"):
        finding(lambda queues, members, me: queues[me], GroupShape(1, 4, 2))
    with pytest.raises(StrategyFailed, match="'q9' is no queue of the topic"):
        finding(lambda queues, members, me: ["q9"], GroupShape(1, 4, 2))


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("averagly", "did you mean averagely"),
        ("averagely_auto", "needs the release to be above in parentheses"),
        ("averagely_auto(4.x)", r"'averagely_auto\(4.x\)': .*4.x"),
        ("pined(10.0.0.1)", "did you mean pinned"),
        ("refusing()", "needs hosts in parentheses"),
        ("{mine}:absent", "has no attribute 'absent'"),
        ("{mine}:NUMBER", "no function of"),
        ("nowhere.py:f", "No such file"),
        ("no_such_module:f", "No module named"),
    ],
)
def test_a_name_that_leads_to_no_strategy_says_why(mine, name, why) -> None:
    with pytest.raises(ValueError, match=why):
        strategy_named(name.replace("{mine}", mine))


def test_a_strategy_with_settings_is_called_by_its_name_with_them() -> None:
    assert strategy_named("averagely_auto(4.9.7)").by_versions is not None
    assert strategy_named("pinned(10.0.0.1, 10.0.0.2)").allocate(
        [1, 2], ["10.0.0.2@1"], "10.0.0.2@1"
    )


@pytest.mark.parametrize(
    ("command", "shape"),
    [
        *(("judge", shape) for shape in ("4x4", "4/4", "0x4/1", "axb/c", "1000x1000/2")),
        *(("idle", shape) for shape in ("1x4/3", "2x4/1", "27x4/3", "2x4/100")),
    ],
)
def test_a_shape_that_cannot_be_is_bad_use(command, shape) -> None:
    assert CliRunner().invoke(app, [command, "--shape", shape]).exit_code == 2


@pytest.fixture(scope="module")
def idle_rows(tmp_path_factory) -> list[dict[str, object]]:
    """The rows of ``strategy idle averagely``, without cached runs."""
    folder = {"XDG_CACHE_HOME": str(tmp_path_factory.mktemp("cache"))}
    shown = CliRunner().invoke(app, ["idle", "averagely", "--json"], env=folder)
    assert shown.exit_code == 0, shown.output
    return json.loads(shown.output)


def test_idleness_moves_when_the_idle_member_is_taken_away_and_ends_with_a_backlog(
    idle_rows,
) -> None:
    found = {
        (r["backlog"], r["taken_away"]): (r["idle_at_once"], r["idle_members"]) for r in idle_rows
    }
    assert found == {
        (False, False): (1, 1),
        (False, True): (1, 2),  # first one member, then another
        (True, False): (0, 0),
        (True, True): (0, 0),
    }
    assert {row["no_load_ratio"] for row in idle_rows} == {0.5}


def test_the_page_of_strategies_shows_what_the_command_finds(idle_rows) -> None:
    page = PAGE.read_text().splitlines()
    table = idle_table([msgspec.convert(row, IdleRow) for row in idle_rows])
    lines = [line.plain.split() for line in table.lines(80)]
    assert all(line in [shown.split() for shown in page] for line in lines)


def test_a_strategy_that_is_not_there_runs_nothing() -> None:
    shown = CliRunner().invoke(app, ["idle", "averagly"])
    assert shown.exit_code == 2
    assert "did you mean averagely" in shown.stderr
