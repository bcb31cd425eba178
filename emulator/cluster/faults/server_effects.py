"""Faults that are set by calls to the servers: reply rules, write permissions, busy pools.

A process loses them when it ends, so they are set again when its node is started; a paused node
is called when it is resumed.  ``read_only`` uses upstream's admin calls: for a whole broker its
setting ``brokerPermission`` (UPDATE_BROKER_CONFIG), which a new process does not have; for a topic
UPDATE_AND_CREATE_TOPIC, which stays in the broker's store.  Either is registered at once, so
routes show it; senders with an old route are not refused, as upstream.  Of several ``busy`` faults
at one pool the latest is in effect.  A broker counts the requests that a busy pool delayed or
refused; each fault gets the counts of the time in which it was in effect, as far as the broker
can be asked: counts of a broker that was killed are lost.
"""

from __future__ import annotations

from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, NamedTuple, TypeVar

import msgspec

from rocketmq_emulator.cluster.fault_values import (
    Answer,
    Busy,
    FailingFlush,
    FullDisk,
    SlowDisk,
)
from rocketmq_emulator.cluster.faults.effects import Effect, PendingUndo, remove_holder
from rocketmq_emulator.cluster.reply_rules import (
    ServerCall,
    list_rules,
    put_topic,
    remove_rule,
    set_busy_pool,
    set_rule,
)
from rocketmq_emulator.cluster.world import CannotDo
from rocketmq_emulator.protocol import catalog, flags
from rocketmq_emulator.protocol.bodies.body import decode_unlimited_body
from rocketmq_emulator.protocol.bodies.extensions import (
    BusyPool,
    BusyPoolState,
    PoolName,
    ReplyRule,
)
from rocketmq_emulator.protocol.bodies.routes import ClusterInfo
from rocketmq_emulator.protocol.bodies.topics import TopicConfig, TopicConfigSerializeWrapper
from rocketmq_emulator.protocol.codes import RequestCode, ResponseCode
from rocketmq_emulator.protocol.error_families import NobodyAnswered, RefusedByServer
from rocketmq_emulator.protocol.java import java_properties
from rocketmq_emulator.protocol.requests.nameserver import UnregisterBrokerRequest

if TYPE_CHECKING:
    from rocketmq_emulator.cluster.faults.effects import ActiveFault, FaultContext

T = TypeVar("T")


class PlacedRule(NamedTuple):
    """A rule at a node: its id there, and how often it is known to have been applied."""

    rule_id: int
    applied_count: int = 0


class AnswerEffect(Effect):
    """A reply rule at each of the nodes; ``placed`` has a ``PlacedRule`` by node."""

    async def begin(self, context: FaultContext, held: ActiveFault) -> None:
        """Set it at running nodes; the others get it when they are started."""
        for name in self.servers(held):
            await self.on_node_resumed(context, held, name)

    async def end(self, context: FaultContext, held: ActiveFault) -> None:
        """Remove the rules; one that reached its count was removed by its node."""
        await self.recount(context, held)
        for name, placed in held.placed.items():
            await _remove(context, name, placed.rule_id)

    async def end_with_world(self, context: FaultContext, held: ActiveFault) -> None:
        """Only update the counts: rules end with their processes."""
        await self.recount(context, held)

    async def on_node_started(self, context: FaultContext, held: ActiveFault, name: str) -> None:
        """Set the rule at the new process, unless the fault began while that was starting."""
        placed = held.placed.pop(name, None)
        if placed is not None and context.rules.get((name, placed.rule_id)) is held:
            states = await context.ask(name, list_rules()) or ()
            if any(each.rule_id == placed.rule_id for each in states):
                held.placed[name] = placed
        await self.on_node_resumed(context, held, name)

    async def on_node_resumed(self, context: FaultContext, held: ActiveFault, name: str) -> None:
        """Set the rule, if the node was paused when the fault began."""
        is_targeted = name in self.servers(held) and name not in held.placed
        if not is_targeted or not context.can_answer(name):
            return
        rule_id = await context.ask(name, set_rule(self.rule(held)))
        if rule_id is None:
            return
        held.placed[name] = PlacedRule(rule_id)
        context.rules[name, rule_id] = held
        if held.is_over:  # the fault ended meanwhile
            await _remove(context, name, rule_id)

    async def recount(self, context: FaultContext, held: ActiveFault) -> None:
        """Ask the nodes how often they applied the rule."""
        for name, (rule_id, known_count) in [*held.placed.items()]:
            if not context.can_answer(name):
                continue
            states = await context.ask(name, list_rules()) or ()
            found = {state.rule_id: state.applied_count for state in states}
            # A rule not listed was applied as often as its count says.
            count = found.get(rule_id, self.rule(held).count or known_count)
            held.placed[name] = PlacedRule(rule_id, count)
            held.acted("applied a reply rule", count - known_count)

    def servers(self, held: ActiveFault) -> tuple[str, ...]:
        """The nodes that get the rule."""
        return held.nodes

    def rule(self, held: ActiveFault) -> ReplyRule:
        """The rule for the nodes."""
        rule: ReplyRule = held.fault.rule
        return rule


class UnregisteredEffect(AnswerEffect):
    """Makes a NameServer refuse a broker's registrations, and unregisters the broker there.

    After the end the broker's next registration succeeds, within 30 s.
    """

    def servers(self, held: ActiveFault) -> tuple[str, ...]:
        """The NameServer, not the broker."""
        return tuple(name for name in held.nodes if name != held.fault.broker)

    def rule(self, held: ActiveFault) -> ReplyRule:
        """A rule for REGISTER_BROKER of that broker; other calls are not affected."""
        return ReplyRule(
            code=RequestCode.REGISTER_BROKER,
            broker_name=held.fault.broker,
            error_code=ResponseCode.SYSTEM_ERROR,
            remark="a fault on purpose: this NameServer takes no registration of this broker",
        )

    async def on_node_resumed(self, context: FaultContext, held: ActiveFault, name: str) -> None:
        """Set the rule first, or the broker would register again at once; then unregister it."""
        if name in held.placed:
            return
        await super().on_node_resumed(context, held, name)
        if name in held.placed:
            await _unregister(context, name, held.fault.broker)


async def _unregister(context: FaultContext, name_server: str, broker: str) -> None:
    """Unregister *broker* at *name_server*, with the calls of a stopping broker."""
    read = ServerCall(
        catalog.GET_BROKER_CLUSTER_INFO, b"", lambda data: decode_unlimited_body(data, ClusterInfo)
    )
    info = await context.ask(name_server, read)
    data = None if info is None else info.broker_addr_table.get(broker)
    if data is None:
        return  # the broker is not registered there
    for broker_id, address in sorted(data.broker_addrs.items()):
        header = UnregisterBrokerRequest(
            broker_name=broker,
            broker_addr=address,
            cluster_name=data.cluster,
            broker_id=broker_id,
        )
        call: ServerCall[None] = ServerCall(catalog.UNREGISTER_BROKER, b"", lambda _: None, header)
        await context.ask(name_server, call)


def rule_applied(held: ActiveFault, name: str, rule_id: int) -> None:
    """Count that node *name* applied a rule, if it is the rule of *held*."""
    placed = held.placed.get(name)
    if isinstance(placed, PlacedRule) and placed.rule_id == rule_id:
        held.placed[name] = placed._replace(applied_count=placed.applied_count + 1)
        held.acted("applied a reply rule")


async def _remove(context: FaultContext, name: str, rule_id: int) -> None:
    if context.can_answer(name):
        await context.ask(name, remove_rule(rule_id))
    elif context.world.is_running(name):
        leftover = PendingUndo(partial(_remove, context, name, rule_id), ends_with_process=True)
        # Before others, whose calls it may hinder.
        context.pending_undo.setdefault(name, []).insert(0, leftover)


# read_only: the permission to write ---------------------------------------------------


SETTING = "brokerPermission"


class PermissionEffect(Effect):
    """Sets perm 4; the end of the last such fault restores the perm of before.

    Upstream's calls can be late: a broker answers them when all its NameServers have answered its
    registration.  So two such faults may set the perm at the same time: the later call decides.
    """

    async def begin(self, context: FaultContext, held: ActiveFault) -> None:
        """Set the perm at running brokers; at others when they are started or resumed."""
        topic = held.fault.topic
        for name in held.nodes:
            context.read_only.setdefault((name, topic), []).append(held)
            try:
                await self._apply(context, held, name)
            except Hindered:
                continue
            if topic and context.can_answer(name) and name not in held.placed:
                text = f"read_only: {name} has no topic {topic}"
                raise CannotDo(context.world.kind, "begin_fault", text, text=text)

    async def end(self, context: FaultContext, held: ActiveFault) -> None:
        """Restore the perm, now or as soon as the broker can answer."""
        for name in held.nodes:
            if remove_holder(context.read_only, (name, held.fault.topic), held):
                await _restore_perm(context, name, held.fault.topic)

    async def on_node_started(self, context: FaultContext, held: ActiveFault, name: str) -> None:
        """Set the perm again; the new process may have the one of before."""
        held.placed.pop(name, None)
        await self.on_node_resumed(context, held, name)

    async def on_node_resumed(self, context: FaultContext, held: ActiveFault, name: str) -> None:
        """Set the perm, if the broker can answer and does not have it from this fault yet."""
        with suppress(Hindered):
            await self._apply(context, held, name)

    async def _apply(self, context: FaultContext, held: ActiveFault, name: str) -> None:
        if name in held.placed or not context.can_answer(name):
            return
        key, topic = (name, held.fault.topic), held.fault.topic
        before = await _perm_of(context, name, topic)
        if before is None:
            return
        context.perms.setdefault(key, before)
        await _set_perm(context, name, topic, flags.PERM_READ)
        held.placed[name] = True
        held.acted("took the permission to write")


async def _restore_perm(context: FaultContext, name: str, topic: str) -> None:
    """Set the perm of before, now or as soon as the broker can answer.

    It is known until it is set: a fault that begins meanwhile would read its own perm.
    """
    key = name, topic
    if key in context.read_only or key not in context.perms:
        return  # another fault holds now, and restores it
    if not topic and not context.world.is_running(name):
        del context.perms[key]  # the next process does not have this fault's perm
        return
    with suppress(Hindered):
        if context.can_answer(name):
            await _set_perm(context, name, topic, context.perms[key])
            if key not in context.read_only:
                context.perms.pop(key, None)
            return
    leftover = PendingUndo(partial(_restore_perm, context, name, topic), not topic)
    context.pending_undo.setdefault(name, []).append(leftover)


async def _perm_of(context: FaultContext, name: str, topic: str) -> int | None:
    """The perm of the broker, or of *topic*; None if the process or the topic is gone.

    Raises ``Hindered``.
    """
    if topic:
        config = await _ask(context, name, read_topic(topic))
        return None if config is None else config.perm
    return await _ask(context, name, read_permission())


async def _set_perm(context: FaultContext, name: str, topic: str, given: int) -> None:
    """Set the perm; the broker answers once it is registered at all NameServers that answer.

    Raises the broker's error, or ``Hindered``, only if the perm was not set and no other call has
    set it since.
    """
    mine = context.perm_calls[name, topic] = context.perm_calls.get((name, topic), 0) + 1
    try:
        await _put_perm(context, name, topic, given)
    except (NobodyAnswered, RefusedByServer, OSError):
        is_set = await _perm_of(context, name, topic) == given
        if not is_set and context.perm_calls[name, topic] == mine:
            raise


async def _put_perm(context: FaultContext, name: str, topic: str, given: int) -> None:
    call = write_permission(given)
    if topic:
        config = await _ask(context, name, read_topic(topic))
        if config is None:
            return  # deleted meanwhile
        call = put_topic(msgspec.structs.replace(config, topic_name=topic, perm=given))
    await _ask(context, name, call)


# Calls that other faults hinder -------------------------------------------------------


HINDERING = (Answer, FailingFlush, FullDisk, SlowDisk)  # and a busy pool of admin calls


class Hindered(NobodyAnswered):
    """Another fault kept the broker from carrying out upstream's call: it is not applied."""


def hinders(held: ActiveFault) -> bool:
    """Whether *held* may keep its nodes from carrying out an operator's calls."""
    is_busy = isinstance(held.fault, Busy) and held.fault.pool == "admin"
    return is_busy or isinstance(held.fault, HINDERING)


async def _ask(context: FaultContext, name: str, call: ServerCall[T]) -> T | None:
    """As ``context.ask``; raises ``Hindered`` if a fault of the node hindered it meanwhile."""
    before, rule_count = _hindrances(context, name), len(context.rules)
    try:
        return await context.ask(name, call)
    except Exception as error:
        if before or _hindrances(context, name) or len(context.rules) > rule_count:
            raise Hindered from error
        raise


def _hindrances(context: FaultContext, name: str) -> list[ActiveFault]:
    return [held for held in context.held.values() if name in held.nodes and hinders(held)]


# The calls ----------------------------------------------------------------------------


def read_permission() -> ServerCall[int]:
    """Read the broker's own perm."""
    return ServerCall(
        catalog.GET_BROKER_CONFIG,
        b"",
        lambda data: int(
            java_properties.parse_body(data).get(SETTING, flags.PERM_READ | flags.PERM_WRITE)
        ),
    )


def write_permission(given: int) -> ServerCall[None]:
    """Set the broker's own perm; the broker then registers."""
    return ServerCall(
        catalog.UPDATE_BROKER_CONFIG, f"{SETTING}={given}\n".encode(), lambda _: None
    )


def read_topic(topic: str) -> ServerCall[TopicConfig | None]:
    """Read the broker's config of *topic*."""

    def found(data: bytes) -> TopicConfig | None:
        return decode_unlimited_body(data, TopicConfigSerializeWrapper).topic_config_table.get(
            topic
        )

    return ServerCall(catalog.GET_ALL_TOPIC_CONFIG, b"", found)


# busy: few and slow threads in a pool -------------------------------------------------


ACTED = "had requests wait or refused them"


class BusyEffect(Effect):
    """Few and slow threads; ``placed`` has the count of a broker when it was last asked."""

    async def begin(self, context: FaultContext, held: ActiveFault) -> None:
        """Set it at running nodes; the others get it when they are started."""
        for name in held.nodes:
            await _count(context, name, held.fault.pool)
            context.busy.setdefault((name, held.fault.pool), []).append(held)
            await _apply_pool(context, name, held.fault.pool)

    async def end(self, context: FaultContext, held: ActiveFault) -> None:
        """Apply the fault that began before it; without one, requests do not wait."""
        pool = held.fault.pool
        for name in held.nodes:
            holding = context.busy.get((name, pool), [])
            if held not in holding:
                continue  # its begin failed before this
            await _count(context, name, pool)
            holding.remove(held)
            await _apply_pool(context, name, pool)

    async def end_with_world(self, context: FaultContext, held: ActiveFault) -> None:
        """Only update the counts: pools end with their processes."""
        await self.recount(context, held)

    async def on_node_started(self, context: FaultContext, held: ActiveFault, name: str) -> None:
        """Apply the pool to the new process, whose counts begin at 0."""
        held.placed.pop(name, None)
        await _apply_pool(context, name, held.fault.pool)

    async def on_node_resumed(self, context: FaultContext, held: ActiveFault, name: str) -> None:
        """Apply the pool, if the node was paused when the fault began."""
        await _apply_pool(context, name, held.fault.pool)

    async def recount(self, context: FaultContext, held: ActiveFault) -> None:
        """Ask the brokers for the counts of their pools."""
        for name in held.nodes:
            await _count(context, name, held.fault.pool)


async def _apply_pool(context: FaultContext, name: str, pool: PoolName) -> None:
    """Set the pool as the latest fault that holds wants it."""
    if not context.can_answer(name):
        if context.world.is_running(name):
            undo = partial(_apply_pool, context, name, pool)
            context.pending_undo.setdefault(name, []).insert(
                0, PendingUndo(undo, ends_with_process=True)
            )
        return
    while True:
        deciding = _deciding(context, name, pool)
        rule = set_busy_pool(BusyPool(pool=pool)) if deciding is None else _wanted(deciding)
        state = await context.ask(name, rule)
        if state is not None and deciding is not None:
            deciding.placed[name] = state.request_count
        if _deciding(context, name, pool) is deciding:
            return  # else another fault began or ended meanwhile: set the pool again


def _deciding(context: FaultContext, name: str, pool: PoolName) -> ActiveFault | None:
    holding = context.busy.get((name, pool))
    return holding[-1] if holding else None


async def _count(context: FaultContext, name: str, pool: PoolName) -> None:
    """Add the pool's counts since the last call to the fault in effect."""
    holding = context.busy.get((name, pool))
    if not holding or name not in holding[-1].placed or not context.can_answer(name):
        return
    held = holding[-1]
    state = await context.ask(name, _wanted(held))
    if state is not None:
        held.acted(ACTED, state.request_count - held.placed[name])
        held.placed[name] = state.request_count


def _wanted(held: ActiveFault) -> ServerCall[BusyPoolState]:
    fault: Busy = held.fault
    return set_busy_pool(
        BusyPool(
            pool=fault.pool,
            threads=fault.threads,
            service_ms=fault.service_ms,
            queue_max=fault.queue_max,
            holds_log=fault.holds_log,
        )
    )
