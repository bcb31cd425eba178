"""The screen of ``up`` in a terminal, drawn every second until a signal stops it."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import trio
from rich.console import Console, Group
from rich.live import Live
from rich.text import Text

from emulator.cli.screens import Rates, cluster_screen, rates_between
from emulator.cluster.admin import AdminError, admin_over_tcp
from emulator.cluster.cluster_reader import ClusterReader
from emulator.cluster.overview import Overview
from emulator.cluster.stopping import stop_on_signal
from emulator.net.plain_nursery import plain_nursery

if TYPE_CHECKING:
    from rich.console import RenderableType

    from emulator.cluster.real_world import RealWorld

LOOK_EVERY_S = 1.0
LOG_LINES_SHOWN = 5


async def watch(cluster: RealWorld, title: str, news: Callable[[], list[str]]) -> None:
    """Draw until SIGINT or SIGTERM.  *news* gives new lines; what it raises is raised here."""
    async with plain_nursery() as nursery:
        stopped = trio.Event()
        await nursery.start(stop_on_signal, stopped)
        nursery.start_soon(_draw, cluster, title, news)
        await stopped.wait()


async def _draw(cluster: RealWorld, title: str, news: Callable[[], list[str]]) -> None:
    shown: list[str] = []
    began_s = trio.current_time()
    before: tuple[Overview, float] | None = None
    with Live(console=Console(), screen=True, auto_refresh=False) as live:
        async with admin_over_tcp(cluster.namesrv) as admin:
            reader = ClusterReader(admin, cluster.namesrv)
            while True:
                shown = [*shown, *news()][-LOG_LINES_SHOWN:]
                now_s = trio.current_time()
                head = _head(title, now_s - began_s)
                foot = Text("\n".join(shown), "red")
                try:
                    overview = await reader.read()
                except AdminError as error:
                    live.update(Group(head, Text(str(error), "red")), refresh=True)
                else:
                    rates = _rates(before, overview, now_s)
                    before = overview, now_s
                    live.update(Group(head, cluster_screen(overview, rates), foot), refresh=True)
                await trio.sleep_until(now_s + LOOK_EVERY_S)


def _rates(before: tuple[Overview, float] | None, overview: Overview, now_s: float) -> Rates:
    return Rates() if before is None else rates_between(before[0], overview, now_s - before[1])


def _head(title: str, up_s: float) -> RenderableType:
    minutes, seconds = divmod(int(up_s), 60)
    return Text.assemble(
        (title, "bold"), f"  up {minutes}:{seconds:02}  ", ("Ctrl-C stops it all", "dim")
    )
