"""The screen of ``up`` in a terminal, drawn every second until a signal stops it.

Its clock goes on whatever the nodes do: it draws what is known, and others find that out.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING

import trio
from rich.console import Console, Group
from rich.live import Live

from emulator.cli.live_screen import Facts, Happening, LiveFrame, LiveScreen
from emulator.cluster.sight import Sight, happened
from emulator.cluster.stopping import stop_on_signal
from emulator.cluster.watching import ClusterWatch
from emulator.net.plain_nursery import plain_nursery

if TYPE_CHECKING:
    from emulator.cluster.real_world import RealWorld

DRAW_EVERY_S = 1.0
CPU_SHARE_MAX = 0.1  # of one core: a cluster that costs more is looked at less often
PERIOD_S_MAX = 10.0
NEWS_KEPT_MAX = 100
LOG_SHOWN_S = 120.0


async def watch(cluster: RealWorld, news: Callable[[], list[str]]) -> None:
    """Draw until SIGINT or SIGTERM.  *news* gives new lines; what it raises is raised here."""
    spec = cluster.spec
    screen = LiveScreen(Facts(spec.release, cluster.namesrv, spec.store, cluster.control))
    async with plain_nursery() as nursery:
        stopped = trio.Event()
        await nursery.start(stop_on_signal, stopped)
        known = ClusterWatch(cluster)
        nursery.start_soon(known.run)
        nursery.start_soon(_draw, known, screen, news, cluster.ready_s)
        await stopped.wait()


async def _draw(
    known: ClusterWatch, screen: LiveScreen, news: Callable[[], list[str]], ready_s: float
) -> None:
    began_s = trio.current_time()
    happenings = [Happening(_now_ms(), f"ready in {ready_s:.2f} s")]
    logs: list[tuple[float, str]] = []
    before: Sight | None = None
    pace = LookPace(time.thread_time())
    with Live(console=Console(), screen=True, auto_refresh=False) as live:
        await known.wait_first_look()
        while True:
            now_s, now_ms = trio.current_time(), _now_ms()
            logs += [(now_s, line) for line in news()]
            logs = [(at_s, line) for at_s, line in logs if at_s > now_s - LOG_SHOWN_S]
            sight = known.sight()
            if before is not None:
                happenings += [Happening(now_ms, text) for text in happened(before, sight)]
            del happenings[:-NEWS_KEPT_MAX]
            before = sight
            frame = LiveFrame(
                now_ms, now_s - began_s, sight, happenings, [line for _, line in logs]
            )
            size = live.console.size
            live.update(Group(*screen.draw(frame, size.width, size.height)), refresh=True)
            known.shown_groups = screen.shown_groups
            known.period_s = pace.period_s(time.thread_time())
            await trio.sleep_until(now_s + DRAW_EVERY_S)


class LookPace:
    """How often to look at the cluster, from what the looks cost.  *cpu_s* is spent already."""

    def __init__(self, cpu_s: float) -> None:
        self._cpu_s = cpu_s
        self._period_s = DRAW_EVERY_S

    def period_s(self, cpu_s: float) -> float:
        """Called at each draw with the CPU time that this thread has taken."""
        share = (cpu_s - self._cpu_s) / DRAW_EVERY_S
        self._cpu_s = cpu_s
        wanted_s = self._period_s * share / CPU_SHARE_MAX
        smoothed_s = (3 * self._period_s + wanted_s) / 4
        self._period_s = min(PERIOD_S_MAX, max(DRAW_EVERY_S, smoothed_s))
        return self._period_s


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
