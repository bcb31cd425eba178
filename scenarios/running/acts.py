"""What a timeline does once: members come and go, nodes restart, topics and offsets change."""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any, Protocol

import msgspec
import trio

from emulator.cluster.admin import AdminRefused, ClusterUnreachable, TopicMissing
from emulator.cluster.deleting import delete_topic_everywhere
from emulator.net.errors import RemoteError
from protocol import catalog
from protocol.codes import ResponseCode
from protocol.requests.offsets import ResetOffsetRequest
from scenarios.plan import (
    AnyAct,
    DeleteTopic,
    GrowTopic,
    Heal,
    Join,
    Leave,
    Mark,
    ResetOffset,
    RollingRestart,
)
from scenarios.running.parts import Cue, group_named

if TYPE_CHECKING:
    from scenarios.running.stage import RunStage

TRY_AGAIN_S, TRIES_MAX = 1.0, 120
SETTLED_US = 60_000_000  # after a fault: brokers register every 30 s, a route is older yet


class RunClock(Protocol):
    """What acts want of who carries out the plan."""

    async def enter(self, cue: Cue) -> None:
        """A client begins."""

    def wall_ms(self, at_ms: int) -> int:
        """The wall time of a time of the plan."""

    async def heal_step(self, name: str) -> None:
        """The fault that a step began ends."""


class Acts:
    """The acts of one run, by their kinds.  What lasts goes on in a nursery of the timeline."""

    def __init__(self, stage: RunStage, run: RunClock) -> None:
        self._stage = stage
        self._run = run
        self._members: Counter[str] = Counter()
        for group in stage.plan.consumers:
            self._members[group.group] += group.members
        self._table: Mapping[type[Any], Callable[[Any], Awaitable[object]]] = {
            Join: self._join,
            Leave: self._leave,
            GrowTopic: self._grow_topic,
            DeleteTopic: self._delete_topic,
            ResetOffset: self._reset_offset,
            Heal: lambda act: run.heal_step(act.step),
            Mark: _nothing,
        }

    async def do(self, act: AnyAct, lasting: trio.Nursery) -> None:
        """A rolling restart goes on beside the next steps; all others are done when it returns.

        What a broker refuses, or cannot be asked, while a fault holds or just after it is tried
        again every second beside the next steps, as an operator would.  Raises what it ends with.
        """
        if isinstance(act, RollingRestart):
            lasting.start_soon(self._restart_one_by_one, act)
        elif not await self._is_done(act):
            lasting.start_soon(self._try_again, act)

    async def _is_done(self, act: AnyAct) -> bool:
        """Raises what it could not do, unless a fault is to blame."""
        try:
            await self._table[type(act)](act)
        except (AdminRefused, ClusterUnreachable, TopicMissing, RemoteError):
            if not self._is_disturbed():
                raise
            return False
        return True

    def _is_disturbed(self) -> bool:
        healed_us = self._stage.watch.healed_us
        return bool(self._stage.faults_in_words()) or (
            healed_us is not None and self._stage.mono_us() - healed_us < SETTLED_US
        )

    async def _try_again(self, act: AnyAct) -> None:
        for _ in range(TRIES_MAX):
            await trio.sleep(TRY_AGAIN_S)
            if await self._is_done(act):
                return
        await self._table[type(act)](act)

    async def _join(self, act: Join) -> None:
        group = group_named(self._stage.plan, act.group)
        for _ in range(act.members):
            self._members[act.group] += 1
            index = self._members[act.group] - 1
            await self._run.enter(Cue(0, f"{act.group}-{index + 1}", group, index))

    async def _leave(self, act: Leave) -> None:
        if act.kill:
            await self._stage.kill(act.node)
        else:
            await self._stage.stop(act.node)

    async def _restart_one_by_one(self, act: RollingRestart) -> None:
        for number, node in enumerate(act.nodes):
            if number:
                await trio.sleep(act.between_ms / 1_000)
            await self._stage.stop(node)
            await trio.sleep(act.down_ms / 1_000)
            await self._stage.start(node)

    async def _grow_topic(self, act: GrowTopic) -> None:
        async with self._stage.admin() as admin:
            for broker in (await admin.brokers_of(act.topic)).values():
                for config in await admin.topics(broker):
                    if config.topic_name == act.topic:
                        grown = msgspec.structs.replace(
                            config, read_queue_nums=act.queues, write_queue_nums=act.queues
                        )
                        await admin.create_topic(broker, grown)

    async def _delete_topic(self, act: DeleteTopic) -> None:
        async with self._stage.admin() as admin:
            await delete_topic_everywhere(admin, act.topic, await admin.brokers_of(act.topic))

    async def _reset_offset(self, act: ResetOffset) -> None:
        """As upstream's tool: members are told, and where none is, the broker's table is set."""
        at_ms = self._run.wall_ms(act.to_ms)
        async with self._stage.admin() as admin:
            for broker in (await admin.brokers_of(act.topic)).values():
                header = ResetOffsetRequest(
                    topic=act.topic, group=act.group, timestamp=at_ms, is_force=True
                )
                reply = await admin.invoke(broker, catalog.INVOKE_BROKER_TO_RESET_OFFSET, header)
                if reply.code == ResponseCode.CONSUMER_NOT_ONLINE:
                    await admin.move_group(act.group, act.topic, "time", at_ms)
                    return


async def _nothing(_act: Mark) -> None:
    """The mark stands in the plan."""
