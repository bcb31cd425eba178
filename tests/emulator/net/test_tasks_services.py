"""Services of one task: each keeps its own rate, and those due together run in order."""

from __future__ import annotations

import trio
from trio.testing import MockClock

from rocketmq_emulator.clocks.clock import TrioAlarm
from rocketmq_emulator.net.tasks import every_service


async def test_services_of_one_task_keep_their_rates_and_their_order(
    autojump_clock: MockClock,
) -> None:
    began_s = trio.current_time()
    ran: list[tuple[int, str]] = []

    def note(name: str) -> None:
        ran.append((round(trio.current_time() - began_s), name))

    services = [
        (lambda: note("slow"), 10_000, 10_000),
        (lambda: note("quick"), 5_000, 10_000),
        (lambda: note("late"), 10_000, 20_000),
    ]
    with trio.move_on_after(22):
        await every_service(services, TrioAlarm())
    assert ran == [
        (10, "slow"),
        (10, "quick"),
        (15, "quick"),
        (20, "slow"),
        (20, "quick"),
        (20, "late"),
    ]
