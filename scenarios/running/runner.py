"""Runs a plan in an environment: starts clients, does the timeline's steps, waits for quiet.

    set up   start the cluster, create its topics
    run      start clients and loads, do the timeline's steps in their order
    heal     end all faults, stop the loads that have no end of their own
    settle   wait until the run is quiet

Each action is done once: members join and leave, nodes restart, topics and offsets change.  If a
broker refuses an action while a fault holds, or just after it, the action is tried again, as an
operator would.  ``doing`` describes at any time what the run waits for.  A run that passes a limit
reports that text, the active faults, the messages not yet sent or consumed, and the tasks.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Protocol

import msgspec
import trio

from rocketmq_emulator.admin.calls import (
    AdminRefused,
    ClusterUnreachable,
    NotFound,
    delete_topic_everywhere,
)
from rocketmq_emulator.admin.elections import elect_master
from rocketmq_emulator.cluster.fault_values import Fault
from rocketmq_emulator.cluster.faults.effects import targeted_names
from rocketmq_emulator.cluster.world import perform
from rocketmq_emulator.errors.call_errors import RemoteError
from rocketmq_emulator.facts import ActionBegan, ActionRefused
from rocketmq_emulator.net.tasks import cancelling_nursery, joining_nursery
from rocketmq_emulator.protocol import catalog
from rocketmq_emulator.protocol.bodies.topics import TopicConfig
from rocketmq_emulator.protocol.codes import ResponseCode
from rocketmq_emulator.protocol.error_families import NobodyAnswered
from rocketmq_emulator.protocol.requests.offsets import ResetOffsetRequest
from rocketmq_emulator.scenarios.plan.client_starts import (
    ClientStart,
    client_starts,
    ends_ms,
    names_client,
)
from rocketmq_emulator.scenarios.plan.plan import (
    AnyAction,
    DeleteTopic,
    Elect,
    GrowTopic,
    Heal,
    Join,
    Leave,
    LoadPlan,
    Mark,
    Plan,
    ResetOffset,
    RollingRestart,
    Step,
    TopicPlan,
    When,
    fields_text,
)
from rocketmq_emulator.scenarios.running.client_specs import client_spec_of, group_named
from rocketmq_emulator.scenarios.running.observer import reasons_not_quiet

if TYPE_CHECKING:
    from rocketmq_emulator.scenarios.running.environment import RunEnvironment


POLL_INTERVAL_S = 1.0


class StepTimedOut(NobodyAnswered):
    """The fact that a step waits for was not noted in time."""


class PlanRunner:
    """One run of ``environment.plan``; random choices of its clients follow from *seed*."""

    def __init__(self, environment: RunEnvironment, seed: int) -> None:
        self.environment = environment
        self.plan: Plan = environment.plan
        self.doing = "starting the cluster"
        self.unrest = ""  # why the run was not quiet in time; empty if it was
        self._seed = seed
        self._began_s = 0.0
        self._began_us = 0
        self._began_wall_ms = 0
        self._actions = TimelineActions(environment, self)
        self._producers: list[str] = []
        self._askable: list[str] = []  # producers of transactions: they stay after their last send
        self._endless: list[str] = []  # producers that are stopped after the timeline
        self._entered: dict[str, tuple[int, trio.Event]] = {}  # clients: when, and that it was
        self._fault_ids: dict[str, int] = {}  # by the name of the step that began the fault

    async def run(self) -> None:
        """Run the whole plan.  Raises ``StepTimedOut``, and errors of the world."""
        await self.environment.start_cluster()
        await self._make_topics()
        self._began_s, self._began_us = trio.current_time(), self.environment.mono_us()
        self._began_wall_ms = self.environment.now_ms()
        async with cancelling_nursery() as entering:
            for start in client_starts(self.plan, self._seed):
                self._entered[start.name] = start.at_ms, trio.Event()
                entering.start_soon(self._enter_on_time, start)
            await self._do_timeline()
            self.doing = "waiting for its last clients to start, and loads to end"
            await self.wait_until_ms(
                ends_ms(self.plan) if self.plan.lasts_ms is None else self.plan.lasts_ms
            )
            entering.cancel_scope.cancel()
        await self._heal()
        if self.plan.lasts_ms is None:
            await self._settle()

    async def wait_until_ms(self, at_ms: float) -> None:
        """Wait until *at_ms*, in ms since the load began."""
        await trio.sleep_until(self._began_s + at_ms / 1_000)

    def wall_ms(self, at_ms: int) -> int:
        """The wall time, in ms, of *at_ms*, a time of the plan."""
        return self._began_wall_ms + at_ms

    async def enter(self, start: ClientStart) -> None:
        """Start the client of *start*."""
        part = client_spec_of(
            start,
            self.plan,
            namesrv=self.environment.world.namesrv,
            seed=self._seed,
            began_us=self._began_us,
        )
        await self.environment.start_client(part)

    # Before ---------------------------------------------------------------------------

    async def _make_topics(self) -> None:
        if not self.plan.topics:
            return
        self.doing = "making topics"
        async with self.environment.admin() as admin:
            brokers = await admin.masters()
            for name, topic in self.plan.topics.items():
                for broker in topic.brokers or brokers:
                    await admin.create_topic(brokers[broker], _topic_config(name, topic))

    async def _enter_on_time(self, start: ClientStart) -> None:
        await self.wait_until_ms(start.at_ms)
        if isinstance(start.plan, LoadPlan) and start.plan.mode == "transaction":
            self._askable.append(start.name)
        elif isinstance(start.plan, LoadPlan):
            self._producers.append(start.name)
            if start.plan.until_ms is None and start.plan.count_max is None:
                self._endless.append(start.name)
        await self.enter(start)
        self._entered[start.name][1].set()

    # The timeline ---------------------------------------------------------------------

    async def _do_timeline(self) -> None:
        world = self.environment.world
        async with joining_nursery() as lasting:
            for number, step in enumerate(self.plan.timeline, 1):
                what = f"step {number} ({word_of(step)})"
                await self._wait_for(step, what)
                self.doing = f"doing {what}"
                if isinstance(step.does, Fault):
                    with errors_of_step(what):
                        fault_id = await perform(world, world.begin_fault, step.does, step.for_ms)
                    self._fault_ids[step.name] = fault_id
                    if step.for_ms is not None:
                        ended = When(kind="FaultEnded", fields={"fault_id": fault_id})
                        lasting.start_soon(self._noted(ended).wait)
                else:
                    began = ActionBegan(word_of(step), fields_text(step.does))
                    self.environment.note(began)
                    await self._actions.do(step.does, what, lasting)
            self.doing = "waiting for the last faults and actions of the timeline to end"

    async def _wait_for(self, step: Step, what: str) -> None:
        if step.when is not None:
            self.doing = f"{what} waits for the fact {step.when.kind}"
            await self._wait_fact(step.when, what)
        elif step.at_ms is not None:
            self.doing = f"{what} waits for {step.at_ms / 1_000:g} s"
            await self.wait_until_ms(step.at_ms)
            for name, (starts_ms, has_started) in self._entered.items():
                # Both may be due now: then the start comes first.
                if starts_ms <= step.at_ms and names_client(step.does, name):
                    await has_started.wait()
        await trio.sleep(step.after_ms / 1_000)

    async def _wait_fact(self, when: When, what: str) -> None:
        noted = self._noted(when)
        with trio.move_on_after(when.wait_ms_max / 1_000):
            await noted.wait()
            return
        of = f" of {when.node}" if when.node else ""
        fields = f" with {when.fields}" if when.fields else ""
        raise StepTimedOut(
            f"{what} waited {when.wait_ms_max / 1_000:g} s for a fact {when.kind}{of}{fields}, "
            "and none was noted: the steps after it were not done"
        )

    def _noted(self, when: When) -> trio.Event:
        """An event that is set at the next fact that matches *when*."""
        noted = trio.Event()
        self.environment.watch.await_fact(when, noted.set)
        return noted

    async def heal_step(self, name: str) -> None:
        """End the fault that the step *name* began."""
        world = self.environment.world
        await perform(world, world.end_fault, self._fault_ids[name])

    # After ----------------------------------------------------------------------------

    async def _heal(self) -> None:
        self.doing = "ending loads and faults"
        world = self.environment.world
        await perform(world, world.end_faults, "healed")
        for name in self._endless:
            await self.environment.stop(name)

    async def _settle(self) -> None:
        healed_us = self.environment.mono_us() if self.plan.timeline else self._began_us
        why = ""
        with trio.move_on_after(self.plan.quiet_ms_max / 1_000):
            while why := self._reasons_unsettled(healed_us):
                self.doing = f"waiting until it is quiet: {why}"
                await trio.sleep(POLL_INTERVAL_S)
            return
        self.unrest = f"not quiet after {self.plan.quiet_ms_max / 1_000:g} s: {why}"

    def _reasons_unsettled(self, healed_us: int) -> str:
        for name in self._producers:
            if not self.environment.client_has_ended(name):
                return f"{name} still sends"
        work = self.environment.open_work() if self._askable else {}
        for name in self._askable:
            if name in work:
                return f"{name} has {work[name]}"
        settled_s = self.plan.settled_ms / 1_000
        return reasons_not_quiet(
            self.environment.watch, self.environment.mono_us(), healed_us, settled_s
        )


def _topic_config(name: str, topic: TopicPlan) -> TopicConfig:
    write_queues = topic.queues if topic.write_queues is None else topic.write_queues
    return TopicConfig(
        topic_name=name,
        read_queue_nums=topic.queues,
        write_queue_nums=write_queues,
        perm=topic.perm,
        attributes=topic.attributes,
    )


def word_of(step: Step) -> str:
    """The keyword of the step's fault or action, as in a file: ``kill``, ``join`` …"""
    does: Any = step.does
    return str(type(does).__struct_config__.tag)


@contextmanager
def errors_of_step(what: str) -> Iterator[None]:
    """Errors inside the block get the note which step they are of."""
    try:
        yield
    except Exception as error:
        error.add_note(f"in {what}")
        raise


# Actions of a timeline ----------------------------------------------------------------


TRY_AGAIN_S, TRIES_MAX = 1.0, 120
SETTLED_US = 60_000_000  # after a fault: brokers register every 30 s, clients poll routes later


class RunClock(Protocol):
    """The methods of ``PlanRunner`` that actions use."""

    async def enter(self, start: ClientStart) -> None:
        """Start the client of *start*."""

    def wall_ms(self, at_ms: int) -> int:
        """The wall time, in ms, of *at_ms*, a time of the plan."""

    async def heal_step(self, name: str) -> None:
        """End the fault that the step *name* began."""


class TimelineActions:
    """The actions of one run, by kind.  Those that last run in a nursery of the timeline."""

    def __init__(self, environment: RunEnvironment, run: RunClock) -> None:
        self._environment = environment
        self._run = run
        self._members: Counter[str] = Counter()
        for group in environment.plan.consumers:
            self._members[group.group] += group.members
        self._table: Mapping[type[Any], Callable[[Any], Awaitable[object]]] = {
            Join: self._join,
            Leave: self._leave,
            GrowTopic: self._grow_topic,
            DeleteTopic: self._delete_topic,
            ResetOffset: self._reset_offset,
            Elect: self._elect,
            Heal: lambda act: run.heal_step(act.step),
            Mark: _nothing,
        }

    async def do(self, act: AnyAction, what: str, lasting: trio.Nursery) -> None:
        """Do *act*: on return it is done, but a rolling restart runs beside the next steps.

        If it fails at a broker while a fault holds or just after it, it is tried again every
        second beside the next steps, as an operator would.  Raises the error of the last try,
        with a note that it is of the step *what*.
        """
        with errors_of_step(what):
            if isinstance(act, RollingRestart):
                lasting.start_soon(self._restart_one_by_one, act, what)
            elif not await self._is_done(act):
                lasting.start_soon(self._try_again, act, what)

    async def _is_done(self, act: AnyAction) -> bool:
        """Do *act*; False if it failed and a fault may be the cause.  Raises any other error."""
        try:
            await self._table[type(act)](act)
        except (AdminRefused, ClusterUnreachable, NotFound, RemoteError):
            if not self._is_disturbed():
                raise
            return False
        return True

    def _is_disturbed(self) -> bool:
        healed_us = self._environment.watch.healed_us
        return bool(self._environment.faults_as_json()) or (
            healed_us is not None and self._environment.mono_us() - healed_us < SETTLED_US
        )

    async def _try_again(self, act: AnyAction, what: str) -> None:
        with errors_of_step(what):
            for _ in range(TRIES_MAX):
                await trio.sleep(TRY_AGAIN_S)
                if await self._is_done(act):
                    return
            await self._table[type(act)](act)

    async def _join(self, act: Join) -> None:
        group = group_named(self._environment.plan, act.group)
        for _ in range(act.members):
            self._members[act.group] += 1
            index = self._members[act.group] - 1
            await self._run.enter(ClientStart(0, f"{act.group}-{index + 1}", group, index))

    async def _leave(self, act: Leave) -> None:
        if act.kill:
            world = self._environment.world
            await perform(world, world.kill, act.node)
        else:
            await self._environment.stop(act.node)

    async def _restart_one_by_one(self, act: RollingRestart, what: str) -> None:
        world = self._environment.world
        with errors_of_step(what):
            for number, node in enumerate(self._running_nodes(act.nodes)):
                if number:
                    await trio.sleep(act.between_ms / 1_000)
                await self._environment.stop(node)
                await trio.sleep(act.down_ms / 1_000)
                await perform(world, world.start, node)

    def _running_nodes(self, wanted: tuple[str, ...]) -> list[str]:
        """The nodes that *wanted* names; of ``brokers`` or a group those that run now."""
        world = self._environment.world
        return [
            name
            for name in targeted_names(world.spec, wanted, world.known_names)
            if name in wanted
            or name in world.node_names
            or not self._environment.client_has_ended(name)
        ]

    async def _grow_topic(self, act: GrowTopic) -> None:
        async with self._environment.admin() as admin:
            for broker in (await admin.brokers_of(act.topic)).values():
                for config in await admin.topics(broker):
                    if config.topic_name == act.topic:
                        grown = msgspec.structs.replace(
                            config,
                            read_queue_nums=act.queues,
                            write_queue_nums=act.queues,
                            attributes={},  # they stay as they are
                        )
                        await admin.create_topic(broker, grown)

    async def _delete_topic(self, act: DeleteTopic) -> None:
        async with self._environment.admin() as admin:
            await delete_topic_everywhere(admin, act.topic, await admin.brokers_of(act.topic))

    async def _reset_offset(self, act: ResetOffset) -> None:
        """As upstream's tool: the broker notifies members; without members its table is set."""
        at_ms = self._run.wall_ms(act.to_ms)
        async with self._environment.admin() as admin:
            for broker in (await admin.brokers_of(act.topic)).values():
                header = ResetOffsetRequest(
                    topic=act.topic, group=act.group, timestamp=at_ms, is_force=True
                )
                reply = await admin.invoke(broker, catalog.INVOKE_BROKER_TO_RESET_OFFSET, header)
                if reply.code == ResponseCode.CONSUMER_NOT_ONLINE:
                    await admin.move_group(act.group, act.topic, "time", at_ms)
                    return

    async def _elect(self, act: Elect) -> None:
        """As upstream's tool; an answer that says no is noted, and the master stays."""
        world = self._environment.world
        controllers = [world.addresses[name] for name in world.spec.controller_names]
        async with self._environment.admin() as admin:
            try:
                await elect_master(admin, controllers, act.broker, world.addresses[act.node])
            except AdminRefused as error:
                if error.code not in ELECTION_REFUSALS:
                    raise
                self._environment.note(ActionRefused("elect", fields_text(act), str(error)))


ELECTION_REFUSALS = (
    ResponseCode.CONTROLLER_MASTER_NOT_AVAILABLE,
    ResponseCode.CONTROLLER_MASTER_STILL_EXIST,
    ResponseCode.CONTROLLER_ELECT_MASTER_FAILED,
)


async def _nothing(_act: Mark) -> None:
    """A mark changes nothing: it is noted when it begins, as every action is."""


# What a run waited for when it passed a limit -----------------------------------------


KINDS_SHOWN = 8


def waiting_summary(environment: RunEnvironment, runner: PlanRunner) -> str:
    """The runner's current work, active faults, messages not yet sent or consumed, tasks."""
    parts = [f"the run was {runner.doing}"]
    if faults := environment.faults_as_json():
        parts.append(f"these faults held: {'; '.join(faults)}")
    if work := environment.open_work():
        parts.append("; ".join(f"{name} had {text}" for name, text in work.items()))
    if backlogs := environment.watch.backlogs():
        parts.append("; ".join(f"{name} had {n} to consume" for name, n in backlogs.items()))
    parts.append(f"tasks: {_tasks()}")
    return ". ".join(parts)


def _tasks() -> str:
    root = trio.lowlevel.current_root_task()
    kinds: Counter[str] = Counter()
    tasks = [] if root is None else [root]
    while tasks:
        nurseries = tasks.pop().child_nurseries
        children = [child for nursery in nurseries for child in nursery.child_tasks]
        kinds.update(child.name.removeprefix("rocketmq_emulator.") for child in children)
        tasks += children
    shown = ", ".join(f"{count} {name}" for name, count in kinds.most_common(KINDS_SHOWN))
    others = len(kinds) - KINDS_SHOWN
    return f"{shown} and {others} other kinds" if others > 0 else shown
