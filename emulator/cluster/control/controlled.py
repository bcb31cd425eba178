"""The members of a cluster that the control address needs: blocking verbs, a list of nodes."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Protocol

from rocketmq_emulator.cluster.node_view import NodeView, TopicMade
from rocketmq_emulator.cluster.spec import ClusterSpec
from rocketmq_emulator.cluster.world import WorldKind

if TYPE_CHECKING:
    from rocketmq_emulator.cluster.fault_values import AnyFault, FaultState
    from rocketmq_emulator.facts.journal import Listener
    from rocketmq_emulator.protocol.bodies.extensions import (
        MisuseView,
        ReplyRule,
        ReplyRuleState,
    )
    from rocketmq_emulator.protocol.bodies.topics import TopicConfig


class ControlledCluster(Protocol):
    """A cluster in real time, with the members of ``World`` and ``RealWorld`` used here."""

    kind: ClassVar[WorldKind]
    spec: ClusterSpec

    @property
    def namesrv(self) -> str:
        """As ``World.namesrv``."""
        ...

    @property
    def brokers(self) -> dict[str, str]:
        """As ``World.brokers``."""
        ...

    @property
    def nodes(self) -> tuple[NodeView, ...]:
        """As ``RealWorld.nodes``."""
        ...

    def node(self, name: str) -> NodeView:
        """As ``RealWorld.node``."""
        ...

    def reset(self) -> None:
        """As ``World.reset``."""
        ...

    @property
    def has_links(self) -> bool:
        """As ``World.has_links``."""
        ...

    def begin_fault(self, fault: AnyFault, for_ms: int | None = None) -> int:
        """As ``World.begin_fault``."""
        ...

    def end_fault(self, fault_id: int) -> bool:
        """As ``World.end_fault``."""
        ...

    def end_faults(self) -> tuple[int, ...]:
        """As ``World.end_faults``."""
        ...

    def faults(self) -> tuple[FaultState, ...]:
        """As ``World.faults``."""
        ...

    def listen(self, listener: Listener) -> None:
        """As ``RealWorld.listen``."""
        ...

    def unlisten(self, listener: Listener) -> None:
        """As ``RealWorld.unlisten``."""
        ...

    def advertise(self, name: str, address: str) -> None:
        """As ``RealWorld.advertise``."""
        ...

    def skew_clock(self, name: str, ms: int) -> object:
        """As ``World.skew_clock``."""
        ...

    def misuses(self) -> tuple[MisuseView, ...]:
        """As ``RealWorld.misuses``."""
        ...

    def make_topic(self, config: TopicConfig) -> TopicMade:
        """As ``RealWorld.make_topic``."""
        ...

    def advance(self, time: str | int) -> int:
        """As ``World.advance``."""
        ...

    def set_reply_rule(self, node: str, rule: ReplyRule) -> int:
        """As ``World.set_reply_rule``."""
        ...

    def reply_rules(self, node: str) -> tuple[ReplyRuleState, ...]:
        """As ``World.reply_rules``."""
        ...

    def remove_reply_rule(self, node: str, rule_id: int | None = None) -> tuple[int, ...]:
        """As ``World.remove_reply_rule``."""
        ...
