"""The same steps in every world: a verb means the same in each, or it is refused by its name."""

from __future__ import annotations

import json
import re
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import NamedTuple

import msgspec
import pytest
import trio

from docs.generate import worlds
from docs.generate.sections import with_section
from rocketmq_emulator.admin.calls import Admin, AdminError
from rocketmq_emulator.client import ClientConfig, Message, Producer
from rocketmq_emulator.client.instance.process import ClientProcess
from rocketmq_emulator.cluster.fault_values import Kill
from rocketmq_emulator.cluster.spec import ClusterSpec
from rocketmq_emulator.cluster.world import (
    CAPABILITIES,
    VERBS,
    CannotDo,
    UnknownNode,
    Verb,
    World,
    perform,
)
from rocketmq_emulator.cluster.worlds.embedded import EmbeddedCluster
from rocketmq_emulator.cluster.worlds.processes import ProcessCluster
from rocketmq_emulator.cluster.worlds.virtual import VirtualCluster
from rocketmq_emulator.faults.links_and_drives import DriveFault, NoRoom, Rule, Stall, between
from rocketmq_emulator.protocol.bodies.extensions import ReplyRule
from rocketmq_emulator.protocol.bodies.topics import TopicConfig
from rocketmq_emulator.protocol.queues import MessageQueue
from rocketmq_emulator.sim.world import run_virtual

WORLDS = {world.kind: world for world in (ProcessCluster, EmbeddedCluster, VirtualCluster)}
TOPIC, BROKER = "orders", "broker-b"
OF_NO_NODE: tuple[Verb, ...] = ("advance", "end_fault", "end_faults", "faults", "reset")
VERBS_OF_NODES = tuple(verb for verb in VERBS if verb not in OF_NO_NODE)
SETTLE_S_MAX, ANSWER_S_MAX = 10.0, 1.5


class WorldBench:
    """A world, clients that send to it and read its routes, and its journal."""

    def __init__(self, world: World, lines: list[bytes], journal: Path | None = None) -> None:
        self.world = world
        self._lines = lines
        self._journal = journal
        self._clients = 0

    async def ask(self, question: Callable[[ClientProcess], Awaitable[object]]):
        """The result of *question*, run in a client process of this world."""
        answers: list = []

        async def program(process: ClientProcess) -> None:
            answers.append(await question(process))

        if isinstance(self.world, VirtualCluster):
            self._clients += 1
            await self.world.start_client(f"client-{self._clients}", program).wait_ended()
        else:
            async with ClientProcess() as process:
                await program(process)
        return answers[0]

    async def admin(self, question: Callable[[Admin], Awaitable[object]]):
        async def asked(process: ClientProcess) -> object:
            instance = await process.instance(ClientConfig(namesrv=self.world.namesrv))
            return await question(Admin(self.world.namesrv, instance.remoting))

        return await self.ask(asked)

    async def send(self) -> None:
        """Send one message to queue 0 of the broker."""

        async def sent(process: ClientProcess) -> object:
            async with Producer(
                process=process, namesrv=self.world.namesrv, group="shop"
            ) as producer:
                queue = MessageQueue(TOPIC, BROKER, 0)
                return await producer.send(Message(TOPIC, b"an order"), queue=queue)

        await self.ask(sent)

    async def routed(self) -> bool:
        return BROKER in await self.admin(lambda admin: admin.masters())

    async def wait_routed(self, wanted: bool) -> None:
        with trio.fail_after(SETTLE_S_MAX):
            while await self.routed() != wanted:  # noqa: ASYNC110  # another process changes it
                await trio.sleep(0.05)

    async def queue(self):
        """The offsets of the broker's first queue; None when it does not answer."""
        address = self.world.brokers[BROKER]

        async def stats(admin: Admin):
            with trio.move_on_after(ANSWER_S_MAX):
                try:
                    table = (await admin.topic_stats_if_any(address, TOPIC)).offset_table
                except AdminError:
                    return None
                return table.get(MessageQueue(TOPIC, BROKER, 0), 0)
            return None

        return await self.admin(stats)

    async def make_topic(self) -> None:
        topic = TopicConfig(topic_name=TOPIC, read_queue_nums=1, write_queue_nums=1)
        await self.admin(lambda admin: admin.create_topic_everywhere(topic))

    def facts(self, node: str) -> list[dict]:
        if self._journal is None:
            entries = map(msgspec.json.decode, self._lines)
        else:
            entries = map(json.loads, (self._journal / f"{node}.jsonl").read_text().splitlines())
        return [entry["fact"] for entry in entries if entry["node"] == node]

    def farewells(self) -> list[str]:
        """The NameServer's reasons for each unregistration of the broker."""
        return [
            fact["reason"]
            for fact in self.facts("namesrv")
            if fact["kind"] == "BrokerUnregistered" and fact["broker"] == BROKER
        ]

    def count(self, kind: str) -> int:
        return sum(fact["kind"] == kind for fact in self.facts(BROKER))


Run = Callable[[WorldBench], Awaitable[None]]


def play(kind: str, spec: ClusterSpec, folder: Path, steps: Run) -> None:
    if kind == "virtual":

        async def main(world) -> None:
            lines: list[bytes] = []
            cluster = VirtualCluster(world, spec, lines.append)
            await cluster.start()
            await steps(WorldBench(cluster, lines))

        run_virtual(main, seed=1)
        return
    with WORLDS[kind](spec, journal=str(folder / "journal")) as cluster:
        trio.run(steps, WorldBench(cluster, [], folder / "journal"))


class Step(NamedTuple):
    """A verb, and the state of the broker after it."""

    verb: Verb
    runs: bool
    answers: bool
    routed: bool  # is it in routes, once the NameServer could have noticed the change?
    farewell: str = ""  # the reason of its unregistration; "" without one
    orderly_ends: int = 0  # how many NodeStopped its journal has


STEPS = (
    Step("stop", False, False, False, "asked", 1),
    Step("stop", False, False, False, "", 1),  # no effect on a node that has ended
    Step("start", True, True, True, "", 1),
    Step("start", True, True, True, "", 1),
    Step("kill", False, False, False, "channel closed", 1),
    Step("restart", True, True, True, "", 1),
    Step("restart", True, True, True, "channel closed", 1),  # kills the running node
    Step("pause", True, False, True, "", 1),
    Step("resume", True, True, True, "", 1),
    Step("pause", True, False, True, "", 1),
    Step("kill", False, False, False, "channel closed", 1),  # also when it is paused
    Step("restart", True, True, True, "", 1),
    Step("pause", True, False, True, "", 1),
    Step("stop", False, False, False, "asked", 2),  # a paused node is resumed first
    Step("start", True, True, True, "", 2),
    Step("power_off", False, False, True, "", 2),  # the NameServer gets no notice
    Step("power_on", True, True, True, "", 2),
)

NOTED = (  # by the world, for the steps up to the last pause
    "NodeKilled",
    "NodeKilled",
    "NodePaused",
    "NodeResumed",
    "NodePaused",
    "NodeKilled",
    "NodePaused",
)


async def all_steps(bench: WorldBench) -> int:
    """Play all steps; return how many of them the world supports."""
    world = bench.world
    await bench.make_topic()
    await bench.send()
    address = world.brokers[BROKER]
    farewells: list[str] = []
    for step in STEPS:
        if not world.can(step.verb):
            with pytest.raises(CannotDo, match=f"the {world.kind} world has no verb {step.verb}"):
                await perform(world, getattr(world, step.verb), BROKER)
            continue
        await perform(world, getattr(world, step.verb), BROKER)
        assert world.is_running(BROKER) == step.runs, step
        assert world.brokers[BROKER] == address, step
        if step.verb == "stop":
            assert not await bench.routed(), "a broker unregisters before it ends"
        await bench.wait_routed(step.routed)
        queue = await bench.queue()
        assert (queue is not None) == step.answers, step
        assert queue is None or queue.max_offset == 1, step
        farewells += [step.farewell] if step.farewell else []
        assert bench.farewells() == farewells, step
        assert bench.count("NodeStopped") == step.orderly_ends, step
    noted = [fact["kind"] for fact in bench.facts("world") if fact.get("node") == BROKER]
    assert noted == list(NOTED)
    starts = sum(world.can(s.verb) and s.verb in ("restart", "power_on") for s in STEPS)
    assert bench.count("NodeStarted") == 3 + starts
    return sum(world.can(step.verb) for step in STEPS)


@pytest.mark.parametrize("kind", WORLDS)
def test_a_verb_means_the_same_in_every_world(kind, tmp_path) -> None:
    flushed = {"flush_disk_type": "SYNC_FLUSH"}
    spec = ClusterSpec(store=str(tmp_path / "store"), broker_settings=flushed)
    done: list[int] = []

    async def steps(bench: WorldBench) -> None:
        done.append(await all_steps(bench))

    play(kind, spec, tmp_path, steps)
    assert done == [sum(kind in CAPABILITIES[step.verb] for step in STEPS)]


@pytest.mark.parametrize("kind", WORLDS)
def test_without_a_store_a_node_keeps_what_it_stored_where_the_world_says_so(
    kind, tmp_path
) -> None:
    async def steps(bench: WorldBench) -> None:
        await bench.make_topic()
        await bench.send()
        await perform(bench.world, bench.world.restart, BROKER)
        queue = await bench.queue()
        assert (queue.max_offset if queue else 0) == bench.world.keeps_memory

    play(kind, ClusterSpec(), tmp_path, steps)


@pytest.mark.parametrize("kind", WORLDS)
def test_an_orderly_end_saves_committed_offsets_and_a_kill_does_not(kind, tmp_path) -> None:
    queue = MessageQueue(TOPIC, BROKER, 0)

    async def steps(bench: WorldBench) -> None:
        world = bench.world

        async def commit(offset: int) -> None:
            address = world.brokers[BROKER]
            await bench.admin(lambda admin: admin.commit(address, "billing", queue, offset))

        async def committed() -> int:
            stats = await bench.admin(
                lambda admin: admin.consume_stats(world.brokers[BROKER], "billing", TOPIC)
            )
            return stats.offset_table[queue].consumer_offset

        await bench.make_topic()
        await commit(7)
        await perform(world, world.stop, BROKER)
        await perform(world, world.start, BROKER)
        assert await committed() == 7
        await commit(8)
        await perform(world, world.restart, BROKER)
        assert await committed() == 7

    play(kind, ClusterSpec(store=str(tmp_path / "store")), tmp_path, steps)


SKEWABLE = CAPABILITIES["skew_clock"]


@pytest.mark.parametrize("kind", SKEWABLE)
def test_a_skewed_clock_shows_in_what_that_broker_stores(kind, tmp_path) -> None:
    async def steps(bench: WorldBench) -> None:
        world, ahead_ms = bench.world, 3_600_000
        await bench.make_topic()
        await bench.send()
        right_ms = (await bench.queue()).last_update_timestamp
        await perform(world, world.skew_clock, BROKER, ahead_ms)
        await bench.send()
        skewed_ms = (await bench.queue()).last_update_timestamp
        assert ahead_ms <= skewed_ms - right_ms < ahead_ms + 60_000
        await perform(world, world.skew_clock, BROKER, 2 * ahead_ms)
        await perform(world, world.restart, BROKER)
        await bench.send()
        again_ms = (await bench.queue()).last_update_timestamp
        assert ahead_ms <= again_ms - skewed_ms < ahead_ms + 60_000

    play(kind, ClusterSpec(store=str(tmp_path / "store")), tmp_path, steps)


@pytest.mark.parametrize("kind", WORLDS)
def test_a_pause_and_a_clock_error_end_with_their_block(kind, tmp_path) -> None:
    async def steps(bench: WorldBench) -> None:
        world, behind_ms = bench.world, 3_600_000
        await bench.make_topic()
        with world.pause(BROKER):
            with world.pause(BROKER):
                pass
            assert world.is_paused(BROKER), "it was paused before the inner block"
        assert not world.is_paused(BROKER)
        with pytest.raises(ValueError, match="no price"), world.pause(BROKER):
            raise ValueError("no price")
        assert not world.is_paused(BROKER)
        with world.skew_clock(BROKER, -behind_ms):
            await bench.send()
        past_ms = (await bench.queue()).last_update_timestamp
        await bench.send()
        assert (await bench.queue()).last_update_timestamp - past_ms >= behind_ms

    play(kind, ClusterSpec(), tmp_path, steps)


def test_every_verb_of_the_virtual_world_may_be_awaited(tmp_path) -> None:
    async def steps(bench: WorldBench) -> None:
        world = bench.world
        await world.pause(BROKER)
        assert world.is_paused(BROKER)
        await world.resume(BROKER)
        await world.skew_clock(BROKER, 5)
        await world.kill(BROKER)
        await world.power_off("namesrv")
        assert not any(map(world.is_running, (BROKER, "namesrv")))

    play("virtual", ClusterSpec(), tmp_path, steps)


def test_a_stalled_link_holds_inside_its_block(tmp_path) -> None:
    async def steps(bench: WorldBench) -> None:
        rule = Rule(between([f"client-{number}" for number in range(9)], [BROKER]), Stall())
        await bench.make_topic()
        with bench.world.link(rule):
            assert await bench.queue() is None
        assert await bench.queue() is not None

    play("virtual", ClusterSpec(), tmp_path, steps)


@pytest.mark.parametrize("kind", WORLDS)
def test_whole_clusters_stop_and_start_where_they_were(kind, tmp_path) -> None:
    async def steps(bench: WorldBench) -> None:
        world = bench.world
        before = world.brokers, world.namesrv
        await perform(world, world.stop)
        assert not any(map(world.is_running, world.node_names))
        assert bench.farewells() == ["asked"], "the NameServer ends after its brokers"
        await perform(world, world.start)
        assert (world.brokers, world.namesrv) == before
        assert await bench.admin(lambda admin: admin.masters()) == world.brokers

    play(kind, ClusterSpec(), tmp_path, steps)


# Refusals ---------------------------------------------------------------------------------


def arguments_of(verb: Verb, node: str) -> tuple:
    if verb == "begin_fault":
        return (Kill(node=node),)
    if verb == "drive":
        return (node, DriveFault(NoRoom()))
    if verb == "link":
        return (Rule(between(node, "namesrv"), Stall()),)
    if verb == "set_reply_rule":
        return (node, ReplyRule(code=310, count=5, error_code=2))
    if verb == "reset":
        return ()
    return (node, 1_000) if verb == "skew_clock" else (node,)


@pytest.mark.parametrize("kind", ["processes", "embedded"])
def test_a_verb_that_a_world_has_not_is_refused_with_who_has_it(kind) -> None:
    world = WORLDS[kind](ClusterSpec())
    refused = [verb for verb in VERBS if not world.can(verb)]
    assert {"power_off", "power_on", "link", "drive"} <= set(refused)
    for verb in refused:
        with pytest.raises(CannotDo) as caught:
            getattr(world, verb)(*arguments_of(verb, BROKER))
        assert (caught.value.world, caught.value.verb) == (kind, verb)
        assert str(caught.value).startswith(f"the {kind} world has no verb {verb} (asked for ")
        assert str(caught.value).endswith(f": use {' or '.join(CAPABILITIES[verb])}")


@pytest.mark.parametrize("kind", ["processes", "embedded"])
def test_a_node_that_is_not_there_is_an_error_that_names_those_that_are(kind) -> None:
    world = WORLDS[kind](ClusterSpec())
    for verb in VERBS_OF_NODES:
        if world.can(verb):
            with pytest.raises(UnknownNode, match="named 'nobody'; there are broker-a, broker-b,"):
                getattr(world, verb)(*arguments_of(verb, "nobody"))


@pytest.mark.parametrize("kind", ["processes", "embedded"])
def test_outside_the_block_nothing_runs_that_could_be_ended(kind) -> None:
    world = WORLDS[kind](ClusterSpec(brokers=1))

    def end_what_does_not_run() -> None:
        world.kill("broker-a")
        world.stop("broker-a")
        world.stop()
        assert not any(map(world.is_running, world.node_names))

    end_what_does_not_run()
    with world:
        assert world.is_running("broker-a")
    end_what_does_not_run()


@pytest.mark.parametrize("kind", ["processes", "embedded"])
def test_a_clock_may_be_skewed_before_its_node_is_started(kind, tmp_path) -> None:
    cluster = WORLDS[kind](ClusterSpec(brokers=1), journal=str(tmp_path))
    cluster.skew_clock("broker-a", 3_600_000)
    with cluster:
        pass
    began_ms = {
        name: json.loads((tmp_path / f"{name}.jsonl").read_text().splitlines()[0])["at_ms"]
        for name in cluster.node_names
    }
    ahead_ms = began_ms["broker-a"] - began_ms["namesrv"]
    assert 3_600_000 <= ahead_ms < 3_660_000


def test_virtual_verbs_take_clients_too_and_refuse_who_is_neither(tmp_path) -> None:
    async def steps(bench: WorldBench) -> None:
        world = bench.world
        await bench.make_topic()  # client-1 does it
        for verb in VERBS_OF_NODES:
            if verb != "link":
                call = getattr(world, verb)
                with pytest.raises(UnknownNode, match="broker-a, broker-b"):
                    await perform(world, call, *arguments_of(verb, "nobody"))
                if "reply_rule" not in verb and verb != "begin_fault":  # only for servers
                    await perform(world, call, *arguments_of(verb, "client-1"))

    play("virtual", ClusterSpec(), tmp_path, steps)


AWAITABLE_TOO = {"Done": "None", "DoneUntil": "AbstractContextManager[None]"}


def test_every_verb_says_what_it_takes_and_returns() -> None:
    for verb in VERBS:
        annotations = {**getattr(World, verb).__annotations__}
        returned = annotations.pop("return")
        assert "Any" not in re.findall(r"\w+", " ".join([returned, *annotations.values()])), verb
        for world in WORLDS.values():
            if world.can(verb):
                narrowed = getattr(world, verb).__annotations__["return"]
                narrowed = AWAITABLE_TOO.get(narrowed, narrowed)
                assert returned in (narrowed, f"MaybeAwaitable[{narrowed}]"), (world, verb)


@pytest.mark.parametrize("kind", WORLDS)
@pytest.mark.parametrize("verb", VERBS)
def test_a_world_has_the_verbs_that_the_table_says(kind, verb) -> None:
    world = WORLDS[kind]
    has_its_own = getattr(world, verb) is not getattr(World, verb)
    assert world.can(verb) == (kind in CAPABILITIES[verb]) == has_its_own
    assert getattr(World, verb).__doc__


def test_the_page_of_worlds_says_what_the_protocol_says() -> None:
    page = worlds.PAGE.read_text()
    assert with_section(page, "verbs", worlds.verbs_text()) == page, "run make page"
