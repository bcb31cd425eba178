"""``strategy judge``: one's own way to share queues beside RocketMQ's."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, NamedTuple

import msgspec
import typer

from emulator.cli.errors import BadUse, fail, plain_errors
from emulator.cli.screens import a_table
from emulator.cli.shared import AsJson, show, show_json
from scenarios.strategies import STRATEGIES, strategy_named
from scenarios.strategy_judge import SHAPES, Finding, Shape, StrategyFailed, findings

if TYPE_CHECKING:
    from rich.table import Table

BROKEN = 1  # the exit code for a strategy whose shares do not fit together
QUEUES_MAX = 100_000
LEGEND = """topic/group: brokers x queues on each / members.  each: queues of one member.
idle: members without a queue.  read-only: with queues of the last broker only.
leaves, joins: queues that change their owner when a member does (that have to).
twice, never: queues with two owners and with none while half of the members do
not know yet that one has joined.  fits: each queue has one owner when all
agree; if not, how many have two, and none."""
app = typer.Typer(no_args_is_help=True, help="Compare ways to share a topic's queues.")


class Judged(NamedTuple):
    """A strategy by name, with what it does for each shape."""

    name: str
    found: list[Finding]


@app.command()
def judge(
    own: Annotated[
        list[str] | None,
        typer.Argument(metavar="[FILE.py:FUNCTION]…", help="Your strategies; none: RocketMQ's."),
    ] = None,
    shape: Annotated[
        list[str] | None,
        typer.Option(
            metavar="BROKERSxQUEUES/MEMBERS",
            help="A topic and a group, such as 4x4/8; may be given again.",
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Compare strategies by what every member computes for itself.

    Exit code 1 if some queue has two owners or none with one of your strategies.
    """
    with plain_errors():
        shapes = tuple(map(_shape, shape)) if shape else SHAPES
        names = [*(own or ()), *(name for name in STRATEGIES if name not in (own or ()))]
        try:
            strategies = {name: strategy_named(name) for name in names}
        except ValueError as error:
            raise BadUse(str(error)) from None
        judged = []
        for name, strategy in strategies.items():
            try:
                judged.append(Judged(name, findings(strategy.allocate, shapes)))
            except StrategyFailed as error:
                raise fail(f"{name}: {error}") from None
        if as_json:
            show_json({each.name: msgspec.to_builtins(each.found) for each in judged})
        else:
            for each in judged:
                typer.echo(each.name)
                show(_table(each.found))
            typer.echo(LEGEND)
    if any(not one.is_partition for each in judged[: len(own or ())] for one in each.found):
        raise typer.Exit(BROKEN)


def _shape(text: str) -> Shape:
    try:
        topic, members = text.split("/")
        brokers, queues = topic.lower().split("x")
        found = Shape(int(brokers), int(queues), int(members))
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
            f"{shape.brokers}x{shape.queues}/{shape.members}",
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
