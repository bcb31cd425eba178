"""docs/demo.svg: the screen of a real run of the demo, after both kills.

    python -m docs.generate.demo_picture [SECONDS]

Only the size of the window and the moment are chosen here: SECONDS after the broker's restart.
"""

from __future__ import annotations

import sys
import tempfile
import time

import trio
from rich.console import Group

from docs.generate.sections import DOCS
from docs.generate.terminal_picture import picture
from rocketmq_emulator.cli.demo.command import SAMPLE
from rocketmq_emulator.cli.demo.run import DemoRun, stop_all
from rocketmq_emulator.cli.demo.screen import COLUMNS_MIN, ROWS_MIN, DemoScreen
from rocketmq_emulator.cli.demo.timeline import RETURN, DemoPlan
from rocketmq_emulator.cluster.spec import ClusterSpec
from rocketmq_emulator.cluster.worlds.processes import ProcessCluster

PICTURE = DOCS / "demo.svg"
MOMENT_S = 4.0
LOOK_S = 0.2


def main(moment_s: float = MOMENT_S) -> None:
    lines = sum(bool(line.strip()) for line in SAMPLE.read_bytes().splitlines())
    with (
        tempfile.TemporaryDirectory(prefix="rmqemu-picture-") as store,
        ProcessCluster(ClusterSpec(brokers=2, store=store)) as cluster,
    ):
        run = DemoRun(cluster, DemoPlan(), str(SAMPLE), lines)
        trio.run(_play, run, moment_s)


async def _play(run: DemoRun, moment_s: float) -> None:
    try:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(run.execute)
            screen = DemoScreen(run)
            while not _is_moment(run, moment_s):
                _frame(screen)  # it shows rates of the last second
                await trio.sleep(LOOK_S)
            PICTURE.write_text(picture(_frame(screen), columns=COLUMNS_MIN, title="make demo"))
            nursery.cancel_scope.cancel()
    finally:
        stop_all(list(run.members.values()))


def _is_moment(run: DemoRun, moment_s: float) -> bool:
    returns = (event.at_s for event in run.events if event.kind == RETURN)
    return any(run.now_s > at_s + moment_s for at_s in returns)


def _frame(screen: DemoScreen) -> Group:
    return Group(*screen.frame(time.time_ns() // 1_000_000, COLUMNS_MIN, ROWS_MIN))


if __name__ == "__main__":
    main(*map(float, sys.argv[1:]))
