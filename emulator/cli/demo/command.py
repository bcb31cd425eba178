"""The command: checks the file, starts the cluster, plays the run, prints the ledger."""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path
from typing import Annotated

import trio
import typer
from rich.console import Console
from rich.live import Live

from emulator.cli.demo.members import stop_all
from emulator.cli.demo.plan import Plan, a_quick_plan
from emulator.cli.demo.run import DemoEvent, DemoRun
from emulator.cli.demo.screen import DemoScreen, event_text, ledger_screen
from emulator.cli.errors import BadUse, fail, plain_errors
from emulator.cli.lines import Counts, counted
from emulator.cli.shared import make_console
from emulator.cluster.processes import ProcessCluster
from emulator.cluster.spec import ClusterSpec
from emulator.cluster.stopping import stop_on_signal
from emulator.net.plain_nursery import plain_nursery

SAMPLE = Path(__file__).with_name("sample.txt")
DRAW_EVERY_S = 0.2
INTERRUPTED = 130


def demo(
    file: Annotated[
        str,
        typer.Option("--input", metavar="FILE", help="Lines to send.", show_default="the sample"),
    ] = str(SAMPLE),
    release: Annotated[str, typer.Option(help="Whose behaviour: 4.9.7, 5.3.3 …")] = "4.9.7",
    quick: Annotated[
        bool, typer.Option("--quick", help="Shorter timers than RocketMQ's: ten seconds in all.")
    ] = False,
) -> None:
    """Your lines flow through a cluster while a consumer and a broker are killed."""
    with plain_errors():
        counts = _counted(file)
        plan = a_quick_plan() if quick else Plan()
        with tempfile.TemporaryDirectory(prefix="rmqemu-demo-") as store:
            spec = ClusterSpec(brokers=2, release=release, store=store)
            with ProcessCluster(spec) as cluster:
                run = trio.run(_play, cluster, plan, str(Path(file).resolve()), counts.sendable)
    make_console().print(ledger_screen(run.ledger, counts))
    if run.was_interrupted:
        raise typer.Exit(INTERRUPTED)
    if run.ledger.lost:
        raise fail(f"{run.ledger.lost:,} acknowledged messages were lost")
    if missing := counts.sendable - len(run.ledger.sent_ms):
        raise fail(f"{missing:,} lines could not be sent")


def _counted(file: str) -> Counts:
    try:
        with Path(file).open("rb") as opened:
            counts = counted(opened)
    except OSError as error:
        raise BadUse(f"{file}: {error.strerror}") from error
    if not counts.sendable:
        raise BadUse(f"{file} has no line with anything in it to send")
    return counts


async def _play(cluster: ProcessCluster, plan: Plan, file: str, lines: int) -> DemoRun:
    console = make_console()
    draws = sys.stdout.isatty()

    def on_event(event: DemoEvent) -> None:
        if not draws:
            console.print(event_text(event))

    run = DemoRun(cluster, plan, file, lines, on_event)
    try:
        async with plain_nursery() as nursery:
            stopped = trio.Event()
            await nursery.start(stop_on_signal, stopped)
            if draws:
                nursery.start_soon(_draw, run, console)
            nursery.start_soon(_interrupt, run, stopped, nursery.cancel_scope)
            await run.play()
    finally:
        stop_all(list(run.members.values()))
    return run


async def _interrupt(run: DemoRun, stopped: trio.Event, scope: trio.CancelScope) -> None:
    await stopped.wait()
    run.was_interrupted = True
    scope.cancel()


async def _draw(run: DemoRun, console: Console) -> None:
    screen = DemoScreen(run)
    with Live(console=console, screen=True, auto_refresh=False) as live:
        while True:
            live.update(screen.draw(time.time_ns() // 1_000_000), refresh=True)
            await trio.sleep(DRAW_EVERY_S)
