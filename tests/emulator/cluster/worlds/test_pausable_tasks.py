"""Tasks of one node pause together, and then continue with the events of the meantime."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from rocketmq_emulator.cluster.worlds.pausable_tasks import PausableTasks


class ANode:
    """The tasks of a node, and a record of their steps."""

    def __init__(self, nursery: trio.Nursery) -> None:
        self.tasks = PausableTasks()
        self.seen: list[str] = []
        self._nursery = nursery

    async def runs(self, async_fn: Callable[[], Awaitable[object]]) -> None:
        """Start a task, and wait until it blocks."""
        self._nursery.start_soon(self.tasks.run, async_fn)
        await wait_all_tasks_blocked()

    async def resumed(self) -> list[str]:
        self.tasks.resume()
        await wait_all_tasks_blocked()
        return self.seen


@pytest.fixture
def node(nursery) -> ANode:
    return ANode(nursery)


async def test_a_paused_task_sees_an_event_when_it_goes_on(node) -> None:
    event = trio.Event()

    async def wait() -> None:
        await event.wait()
        node.seen.append("event")

    await node.runs(wait)
    node.tasks.pause()
    event.set()
    await wait_all_tasks_blocked()
    assert node.seen == []
    assert await node.resumed() == ["event"]


async def test_a_deadline_that_passes_in_a_pause_is_seen_after_it(node, autojump_clock) -> None:
    async def wait() -> None:
        with trio.move_on_after(1) as scope:
            await trio.sleep_forever()
        node.seen.append(f"{scope.cancelled_caught} at {trio.current_time():.0f} s")

    await node.runs(wait)
    node.tasks.pause()
    await trio.sleep(5)
    assert node.seen == []
    assert await node.resumed() == ["True at 5 s"]


async def test_a_paused_task_that_is_cancelled_cleans_up_when_it_goes_on(node) -> None:
    scope = trio.CancelScope()

    async def wait() -> None:
        with scope:
            try:
                await trio.sleep_forever()
            finally:
                node.seen.append("cleaned up")

    await node.runs(wait)
    node.tasks.pause()
    scope.cancel()
    await wait_all_tasks_blocked()
    assert node.seen == []
    assert await node.resumed() == ["cleaned up"]


async def test_tasks_of_its_nurseries_stand_still_with_it(node) -> None:
    event = trio.Event()

    async def child(name: str) -> None:
        await event.wait()
        node.seen.append(name)

    async def parent() -> None:
        async with node.tasks.open_nursery() as children:
            children.start_soon(child, "child")
            children.start_soon(grandparent)

    async def grandparent() -> None:
        async with node.tasks.open_nursery() as children:
            children.start_soon(child, "grandchild")

    await node.runs(parent)
    node.tasks.pause()
    event.set()
    await wait_all_tasks_blocked()
    assert node.seen == []
    assert sorted(await node.resumed()) == ["child", "grandchild"]


async def test_a_task_that_begins_in_a_pause_takes_no_step(node) -> None:
    async def note() -> None:
        node.seen.append("begun")

    node.tasks.pause()
    await node.runs(note)
    assert node.seen == []
    assert await node.resumed() == ["begun"]


async def test_a_pause_right_after_a_resume_holds(node) -> None:
    event = trio.Event()

    async def wait() -> None:
        await event.wait()
        node.seen.append("event")

    await node.runs(wait)
    node.tasks.pause()
    event.set()
    await wait_all_tasks_blocked()
    node.tasks.resume()
    node.tasks.pause()
    await wait_all_tasks_blocked()
    assert node.seen == []
    assert await node.resumed() == ["event"]


async def test_other_tasks_go_on_meanwhile(node) -> None:
    other = ANode(node._nursery)

    async def tick() -> None:
        for number in range(3):
            await trio.lowlevel.checkpoint()
            other.seen.append(str(number))

    node.tasks.pause()
    await node.runs(tick)
    await other.runs(tick)
    assert other.seen == ["0", "1", "2"]
    node.tasks.resume()


async def test_a_result_and_an_error_come_through() -> None:
    tasks = PausableTasks()

    async def double(number: int) -> int:
        await trio.lowlevel.checkpoint()
        return 2 * number

    async def divide() -> None:
        await trio.lowlevel.checkpoint()
        raise ZeroDivisionError

    assert await tasks.run(double, 21) == 42
    with pytest.raises(ZeroDivisionError):
        await tasks.run(divide)
