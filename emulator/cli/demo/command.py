"""The command: checks the file, starts the cluster, plays the run, prints the ledger."""

from __future__ import annotations

import shutil
import sys
import tempfile
from pathlib import Path
from typing import Annotated

import trio
import typer
from rich.console import Console
from rich.text import Text

from emulator.cli.demo.account import account, what_next
from emulator.cli.demo.members import stop_all
from emulator.cli.demo.plan import DemoPlan, a_quick_plan
from emulator.cli.demo.run import DemoRun
from emulator.cli.demo.stage import Stage
from emulator.cli.errors import INTERRUPTED, BadUse, fail, plain_errors
from emulator.cli.lines import Counts, counted
from emulator.cli.shared import make_console
from emulator.cluster.processes import ProcessCluster
from emulator.cluster.spec import ClusterSpec
from emulator.cluster.stopping import stop_on_signal
from emulator.net.plain_nursery import plain_nursery

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
        str, typer.Option(help="Behave as this RocketMQ release, such as 5.3.3.")
    ] = "4.9.7",
    quick: Annotated[
        bool,
        typer.Option("--quick", help="Use shorter timers than RocketMQ's: ten seconds in all."),
    ] = False,
) -> None:
    """Kill a consumer and a broker while messages flow."""
    with plain_errors():
        counts = _counted(file)
        plan = a_quick_plan() if quick else DemoPlan()
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
            return trio.run(_play, cluster, plan, file, counts, make_console())


def _counted(file: str) -> Counts:
    try:
        with Path(file).open("rb") as opened:
            counts = counted(opened)
    except OSError as error:
        raise BadUse(f"{file}: {error.strerror}") from error
    if not counts.sendable:
        raise BadUse(f"{file} has no line with anything in it to send")
    return counts


async def _play(
    cluster: ProcessCluster, plan: DemoPlan, file: str, counts: Counts, console: Console
) -> DemoRun:
    run = DemoRun(cluster, plan, file, counts.sendable)
    stage = Stage(run, console)
    run.on_event = stage.show
    try:
        with stage:
            async with plain_nursery() as nursery:
                stopped = trio.Event()
                await nursery.start(stop_on_signal, stopped)
                nursery.start_soon(_draw, stage)
                nursery.start_soon(_interrupt, run, stopped, nursery.cancel_scope)
                await run.play()
                nursery.cancel_scope.cancel()
        stage.print_last_frame()
        stage.print([Text(), *account(run.ledger, counts, was_interrupted=run.was_interrupted)])
        stage.print([Text(), *what_next(_name_of_the_command())])
    finally:
        stop_all(list(run.members.values()))
    return run


async def _interrupt(run: DemoRun, stopped: trio.Event, scope: trio.CancelScope) -> None:
    await stopped.wait()
    run.stop_early()
    scope.cancel()


async def _draw(stage: Stage) -> None:
    while True:
        stage.show()
        await trio.sleep(DRAW_EVERY_S)


def _name_of_the_command() -> str:
    """As the user can type it again."""
    called = Path(sys.argv[0]).absolute()
    if called.name not in ("rmqemu", "rocketmq-emulator"):
        return "python -m emulator"
    here = Path.cwd()
    is_in_path = shutil.which(called.name) == str(called)
    is_below = called.is_relative_to(here)
    return str(called.relative_to(here)) if is_below and not is_in_path else called.name
