"""The command ``demo``: checks the file, starts the cluster, runs the demo, prints the account.

The account at the end is plain text that fits a pipe: counts of all lines, and every gap.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import trio
import typer
from rich.console import Console
from rich.text import Text

from rocketmq_emulator.cli.demo.run import DemoRun, stop_all
from rocketmq_emulator.cli.demo.screen import DemoDisplay
from rocketmq_emulator.cli.demo.timeline import DemoPlan, quick_plan
from rocketmq_emulator.cli.messages.lines import Counts, counted
from rocketmq_emulator.cli.options.completion import complete_release
from rocketmq_emulator.cli.options.errors import INTERRUPTED, BadUse, errors_as_exit_codes, fail
from rocketmq_emulator.cli.options.server_arguments import RELEASE_METAVAR
from rocketmq_emulator.cli.options.shared import make_console
from rocketmq_emulator.cluster.spec import ClusterSpec
from rocketmq_emulator.cluster.worlds.processes import ProcessCluster
from rocketmq_emulator.net.tasks import cancelling_nursery
from rocketmq_emulator.processes.stopping import stop_on_signal

if TYPE_CHECKING:
    from rocketmq_emulator.cli.demo.ledger import Ledger, Takeover
    from rocketmq_emulator.facts import Queue


SAMPLE = Path(__file__).with_name("sample.txt")
DRAW_EVERY_S = 0.2


def demo(
    file: Annotated[
        str,
        typer.Option(
            "--input",
            metavar="FILE",
            help="The file whose lines are sent.",
            show_default="the sample",
        ),
    ] = str(SAMPLE),
    release: Annotated[
        str,
        typer.Option(
            metavar=RELEASE_METAVAR,
            autocompletion=complete_release,
            help="Behave as this RocketMQ release.",
        ),
    ] = "4.9.7",
    quick: Annotated[
        bool,
        typer.Option("--quick", help="Use shorter timers than RocketMQ's: ten seconds in all."),
    ] = False,
) -> None:
    """Kill a consumer and a broker while messages flow."""
    with errors_as_exit_codes():
        counts = _counted(file)
        plan = quick_plan() if quick else DemoPlan()
        try:
            run = _run(plan, str(Path(file).resolve()), release, counts)
        except KeyboardInterrupt:  # while the cluster starts, or stops
            raise fail("stopped early", INTERRUPTED) from None
    if run.was_interrupted:
        raise typer.Exit(INTERRUPTED)
    if run.ledger.undelivered:
        raise fail(f"{run.ledger.undelivered:,} acknowledged messages were lost")
    if missing := counts.sendable - len(run.ledger.sent):
        raise fail(f"{missing:,} lines could not be sent")


def _run(plan: DemoPlan, file: str, release: str, counts: Counts) -> DemoRun:
    with tempfile.TemporaryDirectory(prefix="rmqemu-demo-") as store:
        spec = ClusterSpec(brokers=2, release=release, store=store)
        with ProcessCluster(spec) as cluster:
            return trio.run(_run_and_draw, cluster, plan, file, counts, make_console())


def _counted(file: str) -> Counts:
    try:
        with Path(file).open("rb") as opened:
            counts = counted(opened)
    except OSError as error:
        raise BadUse(f"{file}: {error.strerror}") from error
    if not counts.sendable:
        raise BadUse(f"{file} has no line with anything in it to send")
    return counts


async def _run_and_draw(
    cluster: ProcessCluster, plan: DemoPlan, file: str, counts: Counts, console: Console
) -> DemoRun:
    run = DemoRun(cluster, plan, file, counts.sendable)
    display = DemoDisplay(run, console)
    run.on_event = display.show
    try:
        with display:
            async with cancelling_nursery() as nursery:
                stopped = trio.Event()
                await nursery.start(stop_on_signal, stopped)
                nursery.start_soon(_draw, display)
                nursery.start_soon(_interrupt, run, stopped, nursery.cancel_scope)
                await run.execute()
                nursery.cancel_scope.cancel()
        display.print_last_frame()
        display.print([Text(), *account(run.ledger, counts, was_interrupted=run.was_interrupted)])
        display.print([Text(), *next_steps(_name_of_the_command())])
    finally:
        stop_all(list(run.members.values()))
    return run


async def _interrupt(run: DemoRun, stopped: trio.Event, scope: trio.CancelScope) -> None:
    await stopped.wait()
    run.stop_early()
    scope.cancel()


async def _draw(display: DemoDisplay) -> None:
    while True:
        display.show()
        await trio.sleep(DRAW_EVERY_S)


def _name_of_the_command() -> str:
    """The name or path by which the user can start this command again."""
    called = Path(sys.argv[0]).absolute()
    if called.name not in ("rmqemu", "rocketmq-emulator"):
        return "python -m rocketmq_emulator"
    here = Path.cwd()
    is_in_path = shutil.which(called.name) == str(called)
    is_below = called.is_relative_to(here)
    return str(called.relative_to(here)) if is_below and not is_in_path else called.name


# The account at the end ---------------------------------------------------------------


LABEL = 10
GAP_COLUMNS = f"{'queue':<10}  {'delivered':>9}  {'longest gap':>11}"
NEXT = (
    ("{command} up", "a cluster of your own, at 127.0.0.1:9876"),
    ("{command} demo --input FILE", "the same with your own lines"),
    ("{command} docs failures", "why each gap was as long as it was"),
)


def account(ledger: Ledger, counts: Counts, *, was_interrupted: bool) -> list[Text]:
    """Gaps and takeovers by queue, then the numbers of sent, delivered and lost messages."""
    lines = _gaps(ledger)
    heading = Text("The account", "bold")
    if was_interrupted:
        heading.append(f": stopped early, {ledger.undelivered:,} not yet delivered", "yellow")
    return [*lines, Text(), heading, *_sums(ledger, counts, was_interrupted=was_interrupted)]


def next_steps(command: str) -> list[Text]:
    """Suggested commands; *command* is the name by which this one was called."""
    rows = [(left.format(command=command), right) for left, right in NEXT]
    width = max(len(left) for left, _ in rows)
    return [
        Text("Try next", "bold"),
        *(Text(f"  {left:<{width}}  {right}") for left, right in rows),
    ]


def _sums(ledger: Ledger, counts: Counts, *, was_interrupted: bool) -> list[Text]:
    rows: list[tuple[str, str | Text]] = [
        ("lines", f"{counts.sendable:,}{_not_sent(counts)}"),
        ("sent", f"{len(ledger.sent):,} acknowledged{_failures(ledger)}"),
        ("delivered", f"{len(ledger.delivered):,} different messages"),
        ("duplicates", f"{ledger.duplicates:,} delivered again after a death"),
    ]
    if not was_interrupted:
        style = "bold red" if ledger.undelivered else "green"
        rows.append(("lost", Text(f"{ledger.undelivered:,}", style)))
    if ledger.broker_back_ms:
        rows.append((ledger.broker, _broker_text(ledger)))
    return [Text.assemble((f"{label:<{LABEL}}  ", "bold"), value) for label, value in rows]


def _not_sent(counts: Counts) -> str:
    kinds = ((counts.empty, "empty"), (counts.too_long, "longer than 4 MiB"))
    named = " and ".join(f"{count:,} {kind}" for count, kind in kinds if count)
    return f"; not sent: {named}" if named else ""


def _failures(ledger: Ledger) -> str:
    if not ledger.failed_sends:
        return ", no send failed"
    return f"; {ledger.failed_sends:,} sends failed and were tried again"


def _broker_text(ledger: Ledger) -> str:
    away_s = (ledger.broker_back_ms - ledger.broker_killed_ms) / 1000
    if not ledger.broker_resumed_ms:
        return f"away for {away_s:.1f} s"
    after_s = (ledger.broker_resumed_ms - ledger.broker_back_ms) / 1000
    return f"away for {away_s:.1f} s, its queues delivered again {after_s:.1f} s after its return"


def _gaps(ledger: Ledger) -> list[Text]:
    taken = {takeover.queue: takeover for takeover in ledger.takeovers}
    heading = GAP_COLUMNS
    if taken:
        heading += f"  taken over from {ledger.takeovers[0].lost_by}"
    lines = [Text(heading, "bold")]
    for queue, history in sorted(ledger.queues.items()):
        row = (
            f"{_name(queue):<10}  {history.delivered:>9,}  {_seconds(history.longest_gap_ms):>11}"
        )
        takeover = taken.get(queue)
        lines.append(Text(f"{row}  {_takeover_text(takeover)}" if takeover else row))
    return lines


def _takeover_text(takeover: Takeover) -> str:
    if takeover.owned_after_ms is None:
        return "by nobody"
    return (
        f"by {takeover.owner} in {_seconds(takeover.owned_after_ms)}, "
        f"read in {_seconds(takeover.delivered_after_ms)}"
    )


def _name(queue: Queue) -> str:
    return f"{queue.broker}/{queue.queue_id}"


def _seconds(ms: int | None) -> str:
    return "-" if ms is None else f"{ms / 1000:.2f} s"
