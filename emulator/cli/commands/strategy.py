"""``strategy judge`` and ``strategy idle``: compare allocation strategies with RocketMQ's.

They compare the shares that every member computes, and virtual runs, with one row per run.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer
from rich.text import Text

from rocketmq_emulator.cli.options.completion import one_of
from rocketmq_emulator.cli.options.errors import BadUse, errors_as_exit_codes, fail
from rocketmq_emulator.cli.options.shared import AsJson, show, show_json
from rocketmq_emulator.cli.screens.cluster_tables import a_table
from rocketmq_emulator.cli.screens.columns import Column, Sheet
from rocketmq_emulator.cli.screens.progress_bar import DelayedProgressBar
from rocketmq_emulator.scenarios.catalog.strategy_judge import (
    AT_WORK,
    BROKERS_MAX,
    CASES,
    COMPARED,
    MEMBERS_MAX,
    SEED,
    SHAPES,
    AtWork,
    Finding,
    GroupShape,
    IdleRow,
    StrategyFailed,
    at_work,
    findings,
    idle_row,
    plan_at_work,
    plans_of_idleness,
)
from rocketmq_emulator.scenarios.plan.strategies import STRATEGIES, strategy_named
from rocketmq_emulator.scenarios.sweeps.row_files import cache_folder
from rocketmq_emulator.scenarios.sweeps.run_pool import JOBS
from rocketmq_emulator.scenarios.sweeps.sweep import rows_of_plans

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.progress import ProgressColumn
    from rich.table import Table

    from rocketmq_emulator.client.consumer.group.allocation import Strategy
    from rocketmq_emulator.scenarios.plan.plan import Plan
    from rocketmq_emulator.scenarios.plan.result import RunResult


BROKEN = 1  # exit code: with a user's strategy a queue has two owners or none
QUEUES_MAX = 100_000
LEGEND = """topic/group: brokers x queues on each / members.  each: queues of one member.
idle: members without a queue.  read-only: with queues of the last broker only.
leaves, joins: queues that change their owner when a member does (that have to).
twice, never: queues with two owners and with none while half of the members do
not know yet that one has joined.  fits: each queue has one owner when all
agree; if not, how many have two, and none."""
WORK_LEGEND = """at work: a virtual run, 2x4/3; one member joins, one is killed.  twice, never:
seconds with two owners and with none, summed over queues.  settles: from the
first change of a rebalance to its last, at most.  moved: queues that changed
their owner (that had to).  skew: most queues minus fewest, at the end."""
IDLE_LEGEND = """idle: members that had only queues of a read-only broker, read to their end, at
one moment.  in all: members that got nothing for 10 s or more.  idle s: how
long, summed over members.  moved: queues that changed their owner (that had
to).  averagely_auto(4.9.7): a group with a member of 4.9.7, so averagely; at
averagely_auto(4.9.6) all members are above, so by circle."""
OWN_HELP = "Your strategies; none: RocketMQ's."
app = typer.Typer(no_args_is_help=True, help="Compare ways to share a topic's queues.")


Own = Annotated[list[str] | None, typer.Argument(metavar="FILE.py:FUNCTION…", help=OWN_HELP)]


class Judged(NamedTuple):
    """The name of a strategy, and its findings for each shape."""

    name: str
    found: list[Finding]


@app.command()
def judge(
    own: Own = None,
    shape: Annotated[
        list[str] | None,
        typer.Option(
            metavar="BROKERSxQUEUES/MEMBERS",
            help="A topic and a group, such as 4x4/8; repeatable.",
        ),
    ] = None,
    runs: Annotated[
        bool,
        typer.Option(
            "--runs/--no-runs", show_default="--runs", help="Try each in a virtual run, too."
        ),
    ] = True,
    as_json: AsJson = False,
) -> None:
    """Compare strategies by the shares of members, and by a virtual run.

    Exit code 1 if some queue has two owners or none with one of your strategies.
    """
    with errors_as_exit_codes():
        shapes = tuple(map(_shape, shape)) if shape else SHAPES
        names = [*(own or ()), *(name for name in STRATEGIES if name not in (own or ()))]
        judged = [Judged(name, _found(name, shapes)) for name in names]
        worked: list[AtWork] = []
        if runs:
            rows = finished_plans([plan_at_work(name) for name in names], is_shown=_bars(as_json))
            worked = [at_work(name, row) for name, row in zip(names, rows, strict=True)]
        if as_json:
            show_json({"shapes": dict(judged), "at_work": worked})
        else:
            for each in judged:
                typer.echo(each.name)
                show(_table(each.found))
            typer.echo(LEGEND)
            if worked:
                typer.echo()
                show(at_work_table(worked))
                typer.echo(WORK_LEGEND)
    if any(not one.is_partition for each in judged[: len(own or ())] for one in each.found):
        raise typer.Exit(BROKEN)


@app.command()
def idle(
    strategies: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="STRATEGY…",
            autocompletion=one_of(STRATEGIES),
            help="By name, or your own: FILE.py:FUNCTION.",
        ),
    ] = None,
    shape: Annotated[
        str, typer.Option(metavar="BROKERSxQUEUES/MEMBERS", help="A topic and a group.")
    ] = str(AT_WORK),
    as_json: AsJson = False,
) -> None:
    """Show the members that are idle while a broker is read-only.

    With a backlog and without, and when an idle member is taken away (apache/rocketmq#3465),
    one virtual run each.  Default strategies: averagely, by circle, and averagely_auto in a group
    with an old member and in a group without.
    """
    with errors_as_exit_codes():
        topic = _shape(shape)
        if not 2 <= topic.brokers <= BROKERS_MAX or not 2 <= topic.members <= MEMBERS_MAX:
            limits = f"2 to {BROKERS_MAX} brokers and 2 to {MEMBERS_MAX} members"
            raise BadUse(f"--shape {shape}: {limits}, so that one may be read-only, and one leave")
        names = list(dict.fromkeys(strategies or COMPARED))
        for name in names:
            _strategy(name)
        plans = [plan for name in names for plan in plans_of_idleness(name, topic)]
        rows = finished_plans(plans, is_shown=_bars(as_json))
        each = [name for name in names for _ in CASES]
        found = [idle_row(name, row) for name, row in zip(each, rows, strict=True)]
        if as_json:
            show_json(found)
            return
        ratio = found[0].no_load_ratio
        typer.echo(f"{topic}: one broker is read-only; no-load ratio {ratio:.2f}\n")
        show(idle_table(found))
        typer.echo(IDLE_LEGEND)


def _bars(as_json: bool) -> bool:
    return sys.stderr.isatty() and not as_json


def _found(name: str, shapes: tuple[GroupShape, ...]) -> list[Finding]:
    try:
        return findings(_strategy(name).allocate, shapes)
    except StrategyFailed as error:
        raise fail(f"{name}: {error}") from None


def _strategy(name: str) -> Strategy:
    try:
        return strategy_named(name)
    except ValueError as error:
        raise BadUse(str(error)) from None


def _shape(text: str) -> GroupShape:
    try:
        topic, members = text.split("/")
        brokers, queues = topic.lower().split("x")
        found = GroupShape(int(brokers), int(queues), int(members))
    except ValueError:
        raise BadUse(f"--shape is BROKERSxQUEUES/MEMBERS such as 4x4/8, not {text!r}") from None
    if min(found.brokers, found.queues, found.members) < 1 or found.queue_count > QUEUES_MAX:
        raise BadUse(f"--shape {text}: from 1 of each, and at most {QUEUES_MAX:,} queues")
    return found


def _table(found: list[Finding]) -> Table:
    titles = ("each", "idle", "read-only", "leaves", "joins", "twice", "never")
    table = a_table("topic/group", *titles, "fits", numbers=titles)
    for one in found:
        shape = one.shape
        fits = "yes" if one.is_partition else f"no: {one.doubled}, {one.unowned}"
        table.add_row(
            f"{shape}",
            f"{one.least}-{one.most}",
            f"{one.idle_members}",
            f"{one.idle_read_only}" if shape.brokers > 1 else "",
            f"{one.moved_leave} ({one.left_leave})",
            f"{one.moved_join} ({one.got_join})",
            f"{one.doubled_meanwhile}",
            f"{one.unowned_meanwhile}",
            fits,
        )
    return table


# Virtual runs and their tables --------------------------------------------------------


AT_WORK_COLUMNS = (
    Column("at work", narrow=20),
    Column("twice s", is_number=True),
    Column("never s", is_number=True),
    Column("settles s", is_number=True),
    Column("moved", is_number=True),
    Column("had to", is_number=True),
    Column("skew", is_number=True),
)
IDLE_COLUMNS = (
    Column("strategy", narrow=20),
    Column("backlog"),
    Column("taken away"),
    Column("idle", is_number=True),
    Column("in all", is_number=True),
    Column("idle s", is_number=True),
    Column("moved", is_number=True),
    Column("had to", is_number=True),
)


class RunsProgress(DelayedProgressBar):
    """The bar for virtual runs: how many of all are finished."""

    def columns(self) -> list[ProgressColumn]:
        from rich.progress import BarColumn, TextColumn  # noqa: PLC0415  # only for long work

        return [BarColumn(bar_width=20), TextColumn("{task.description}", markup=False)]


def finished_plans(plans: Sequence[Plan], *, is_shown: bool) -> list[RunResult]:
    """The row of each plan.  Raises ``Exit`` with the reason if a plan could not be run."""
    rows: dict[int, RunResult] = {}
    with RunsProgress(is_shown=is_shown) as bar:

        def look() -> None:
            if bar.is_time():
                text = f"{len(rows)} of {len(plans)} virtual runs"
                bar.draw(text, len(rows), len(plans))

        for at, row in rows_of_plans(
            plans, seed=SEED, jobs=JOBS["virtual"], cache=cache_folder(), look=look
        ):
            rows[at] = row
            look()
    for row in rows.values():
        if row.verdict == "error":
            raise fail(f"a virtual run of {row.scenario}: {row.reason}")
    return [rows[at] for at in range(len(plans))]


def at_work_table(found: Sequence[AtWork]) -> Sheet:
    """A row per strategy: its figures while members join and are killed."""
    return Sheet(
        AT_WORK_COLUMNS,
        [
            (
                one.strategy,
                f"{one.overlap_queue_s:.3f}",
                f"{one.unowned_queue_s:.3f}",
                f"{one.settle_s:.3f}",
                f"{one.moved_queues}",
                f"{one.necessary_moves}",
                f"{one.skew_queues}",
            )
            for one in found
        ],
    )


def idle_table(found: Sequence[IdleRow]) -> Sheet:
    """A row per run: the idle members while a broker was read-only."""
    return Sheet(
        IDLE_COLUMNS,
        [
            (
                one.strategy,
                "yes" if one.backlog else "no",
                "yes" if one.taken_away else "no",
                _wrong_above_0(f"{one.idle_at_once}"),
                _wrong_above_0(f"{one.idle_members}"),
                _wrong_above_0(f"{one.idle_s:.0f}"),
                f"{one.moved_queues}",
                f"{one.necessary_moves}",
            )
            for one in found
        ],
    )


def _wrong_above_0(number: str) -> Text:
    return Text(number, "" if number == "0" else "yellow")
