"""A plan, carried out on a stage: who enters when, what is done to them, until it is quiet.

    set up   the cluster, its topics
    act      clients enter, loads run, the timeline's steps are done in their order
    heal     loads without an end are ended, all faults are ended
    settle   until it is quiet

``doing`` says at any time what the run waits for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import trio

from emulator.cluster.faults.values import Fault
from emulator.net.plain_nursery import plain_nursery, whole_nursery
from protocol.bodies.topics import TopicConfig
from scenarios.plan import LoadPlan, Plan, Step, TopicPlan, When
from scenarios.running.acts import Acts
from scenarios.running.parts import Cue, cues, ends_ms, part_of
from scenarios.running.quiet import what_is_not_quiet

if TYPE_CHECKING:
    from scenarios.running.stage import RunStage

LOOK_EVERY_S = 1.0


class StepNeverCame(Exception):
    """A step waits for a fact that nobody noted in time."""


class Director:
    """One run of ``stage.plan``; *seed* is what chance in clients follows from."""

    def __init__(self, stage: RunStage, seed: int) -> None:
        self.stage = stage
        self.plan: Plan = stage.plan
        self.doing = "starting the cluster"
        self.unrest = ""  # what was not quiet in the end, when it was waited for in vain
        self._seed = seed
        self._began_s = 0.0
        self._began_us = 0
        self._began_wall_ms = 0
        self._acts = Acts(stage, self)
        self._producers: list[str] = []
        self._endless: list[str] = []  # those of them that are stopped after the timeline
        self._fault_ids: dict[str, int] = {}  # by the names of the steps that began them

    async def run(self) -> None:
        """All of it.  Raises ``StepNeverCame``, and what the world could not do."""
        await self.stage.start_cluster()
        await self._make_topics()
        self._began_s, self._began_us = trio.current_time(), self.stage.mono_us()
        self._began_wall_ms = self.stage.now_ms()
        async with plain_nursery() as entering:
            for cue in cues(self.plan):
                entering.start_soon(self._enter_on_time, cue)
            await self._do_timeline()
            self.doing = "waiting for its last clients to enter, and loads to end"
            await self.wait_until_ms(
                ends_ms(self.plan) if self.plan.lasts_ms is None else self.plan.lasts_ms
            )
            entering.cancel_scope.cancel()
        await self._heal()
        if self.plan.lasts_ms is None:
            await self._settle()

    async def wait_until_ms(self, at_ms: float) -> None:
        """In ms since the load began."""
        await trio.sleep_until(self._began_s + at_ms / 1_000)

    def wall_ms(self, at_ms: int) -> int:
        """The wall time of a time of the plan."""
        return self._began_wall_ms + at_ms

    async def enter(self, cue: Cue) -> None:
        """A client begins."""
        part = part_of(
            cue,
            self.plan,
            namesrv=self.stage.world.namesrv,
            seed=self._seed,
            began_us=self._began_us,
        )
        await self.stage.start_client(part)

    # Before ---------------------------------------------------------------------------

    async def _make_topics(self) -> None:
        if not self.plan.topics:
            return
        self.doing = "making topics"
        async with self.stage.admin() as admin:
            brokers = await admin.masters()
            for name, topic in self.plan.topics.items():
                for broker in topic.brokers or brokers:
                    await admin.create_topic(brokers[broker], _topic_config(name, topic))

    async def _enter_on_time(self, cue: Cue) -> None:
        await self.wait_until_ms(cue.at_ms)
        if isinstance(cue.plan, LoadPlan):
            self._producers.append(cue.name)
            if cue.plan.until_ms is None and cue.plan.count_max is None:
                self._endless.append(cue.name)
        await self.enter(cue)

    # The timeline ---------------------------------------------------------------------

    async def _do_timeline(self) -> None:
        async with whole_nursery() as lasting:
            for number, step in enumerate(self.plan.timeline, 1):
                await self._wait_for(step, f"step {number} ({word_of(step)})")
                self.doing = f"doing step {number} ({word_of(step)})"
                if isinstance(step.does, Fault):
                    fault_id = await self.stage.begin_fault(step.does, step.for_ms)
                    self._fault_ids[step.name] = fault_id
                    if step.for_ms is not None:
                        ended = When(kind="FaultEnded", fields={"fault_id": fault_id})
                        lasting.start_soon(self._noted(ended).wait)
                else:
                    await self._acts.do(step.does, lasting)
            self.doing = "waiting for the last faults and acts of the timeline to end"

    async def _wait_for(self, step: Step, what: str) -> None:
        if step.when is not None:
            self.doing = f"{what} waits for the fact {step.when.kind}"
            await self._wait_fact(step.when, what)
        elif step.at_ms is not None:
            self.doing = f"{what} waits for {step.at_ms / 1_000:g} s"
            await self.wait_until_ms(step.at_ms)
        await trio.sleep(step.after_ms / 1_000)

    async def _wait_fact(self, when: When, what: str) -> None:
        noted = self._noted(when)
        with trio.move_on_after(when.wait_ms_max / 1_000):
            await noted.wait()
            return
        of = f" of {when.node}" if when.node else ""
        fields = f" with {when.fields}" if when.fields else ""
        raise StepNeverCame(
            f"{what} waited {when.wait_ms_max / 1_000:g} s for a fact {when.kind}{of}{fields}, "
            "and none was noted: what comes after it was not done"
        )

    def _noted(self, when: When) -> trio.Event:
        """Set at the first such fact from now on."""
        noted = trio.Event()
        self.stage.watch.await_fact(when, noted.set)
        return noted

    async def heal_step(self, name: str) -> None:
        """The fault that the step *name* began ends now."""
        await self.stage.end_fault(self._fault_ids[name])

    # After ----------------------------------------------------------------------------

    async def _heal(self) -> None:
        self.doing = "ending loads and faults"
        await self.stage.heal()
        for name in self._endless:
            await self.stage.stop(name)

    async def _settle(self) -> None:
        healed_us = self.stage.mono_us() if self.plan.timeline else self._began_us
        why = ""
        with trio.move_on_after(self.plan.quiet_ms_max / 1_000):
            while why := self._what_goes_on(healed_us):
                self.doing = f"waiting until it is quiet: {why}"
                await trio.sleep(LOOK_EVERY_S)
            return
        self.unrest = f"not quiet after {self.plan.quiet_ms_max / 1_000:g} s: {why}"

    def _what_goes_on(self, healed_us: int) -> str:
        for name in self._producers:
            if not self.stage.client_has_ended(name):
                return f"{name} still sends"
        settled_s = self.plan.settled_ms / 1_000
        return what_is_not_quiet(self.stage.watch, self.stage.mono_us(), healed_us, settled_s)


def _topic_config(name: str, topic: TopicPlan) -> TopicConfig:
    write_queues = topic.queues if topic.write_queues is None else topic.write_queues
    return TopicConfig(
        topic_name=name,
        read_queue_nums=topic.queues,
        write_queue_nums=write_queues,
        perm=topic.perm,
    )


def word_of(step: Step) -> str:
    """The word of what it does, as people write it."""
    does: Any = step.does
    return str(type(does).__struct_config__.tag)
