"""A broker, or one of its topics, may be read and not written to: by upstream's admin calls.

The whole broker turns read-only by its setting ``brokerPermission`` (UPDATE_BROKER_CONFIG), which
a new process does not have; a topic by UPDATE_AND_CREATE_TOPIC, which is kept in the broker's
store.  Either is registered at once, so routes show it; senders with an old route are
not refused, as upstream.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from emulator.cluster.faults.held import Effect, Leftover, let_go
from emulator.cluster.reply_rules import RuleCall
from emulator.cluster.world import CannotDo
from protocol import catalog, java_properties, perm
from protocol.bodies.body import decode_long_body
from protocol.bodies.topics import TopicConfig, TopicConfigSerializeWrapper
from protocol.names import AUTO_CREATE_TOPIC_KEY_TOPIC
from protocol.requests.admin import CreateTopicRequest

if TYPE_CHECKING:
    from emulator.cluster.faults.held import Grip, Held

SETTING = "brokerPermission"


class PermissionEffect(Effect):
    """Perm 4; the perm of before is kept for the end of the last such fault."""

    async def begin(self, grip: Grip, held: Held) -> None:
        """At a broker that runs; at another one when it is started, or goes on."""
        topic = held.fault.topic
        for name in held.nodes:
            grip.read_only.setdefault((name, topic), []).append(held)
            await self.go_on(grip, held, name)
            if topic and grip.can_answer(name) and name not in held.placed:
                text = f"read_only: {name} has no topic {topic}"
                raise CannotDo(grip.world.kind, "begin_fault", text, text=text)

    async def end(self, grip: Grip, held: Held) -> None:
        """The perm is as before, now or as soon as the broker can be asked."""
        for name in held.nodes:
            key = (name, held.fault.topic)
            if let_go(grip.read_only, key, held) and key in grip.perms:
                restore = partial(_give, grip, name, held.fault.topic, grip.perms.pop(key))
                if grip.can_answer(name):
                    await restore()
                else:
                    leftover = Leftover(restore, of_process=not held.fault.topic)
                    grip.leftovers.setdefault(name, []).append(leftover)

    async def renew(self, grip: Grip, held: Held, name: str) -> None:
        """The new process may have the perm of before."""
        held.placed.pop(name, None)
        await self.go_on(grip, held, name)

    async def go_on(self, grip: Grip, held: Held, name: str) -> None:
        """The broker can be asked."""
        if name in held.placed or not grip.can_answer(name):
            return
        key, topic = (name, held.fault.topic), held.fault.topic
        before = await _perm_of(grip, name, topic)
        if before is None:
            return
        grip.perms.setdefault(key, before)
        await _give(grip, name, topic, perm.READ)
        held.placed[name] = True
        held.acted("took the permission to write")


async def _perm_of(grip: Grip, name: str, topic: str) -> int | None:
    """None: the process has gone, or has no such topic."""
    if topic:
        config = await grip.ask(name, "ask_server", read_topic(topic))
        return None if config is None else config.perm
    found: int | None = await grip.ask(name, "ask_server", read_permission())
    return found


async def _give(grip: Grip, name: str, topic: str, given: int) -> None:
    """The broker answers when every NameServer knows; one that does not answer is not waited for.

    Raises what the broker's error was if it has not the perm.
    """
    call: RuleCall[Any] = write_permission(given)
    if topic:
        config = await grip.ask(name, "ask_server", read_topic(topic))
        if config is None:
            return  # deleted meanwhile
        call = write_topic(topic, config, given)
    try:
        await grip.ask(name, "ask_server", call)
    except Exception:
        if await _perm_of(grip, name, topic) != given:
            raise


def read_permission() -> RuleCall[int]:
    """The broker's own perm."""
    return RuleCall(
        catalog.GET_BROKER_CONFIG,
        b"",
        lambda data: int(java_properties.parse_body(data).get(SETTING, perm.READ | perm.WRITE)),
    )


def write_permission(given: int) -> RuleCall[None]:
    """The broker has that perm, and registers."""
    return RuleCall(catalog.UPDATE_BROKER_CONFIG, f"{SETTING}={given}\n".encode(), lambda _: None)


def read_topic(topic: str) -> RuleCall[TopicConfig | None]:
    """The topic as that broker has it."""

    def found(data: bytes) -> TopicConfig | None:
        return decode_long_body(data, TopicConfigSerializeWrapper).topic_config_table.get(topic)

    return RuleCall(catalog.GET_ALL_TOPIC_CONFIG, b"", found)


def write_topic(topic: str, config: TopicConfig, given: int) -> RuleCall[None]:
    """The topic with another perm, and the broker registers it."""
    header = CreateTopicRequest(
        topic=topic,
        default_topic=AUTO_CREATE_TOPIC_KEY_TOPIC,
        read_queue_nums=config.read_queue_nums,
        write_queue_nums=config.write_queue_nums,
        perm=given,
        topic_filter_type=config.topic_filter_type,
        order=config.order,
    )
    return RuleCall(catalog.UPDATE_AND_CREATE_TOPIC, b"", lambda _: None, header)
