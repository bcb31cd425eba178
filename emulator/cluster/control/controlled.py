"""What the control address needs of a cluster: verbs that block, and a table of nodes."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Protocol

from emulator.cluster.node_view import NodeView
from emulator.cluster.spec import ClusterSpec
from emulator.cluster.world import WorldKind

if TYPE_CHECKING:
    from protocol.bodies.reply_rules import ReplyRule, ReplyRuleState


class Controlled(Protocol):
    """A cluster in real time; its members mean what ``World`` and ``RealWorld`` say."""

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

    def skew_clock(self, name: str, ms: int) -> None:
        """As ``World.skew_clock``."""
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
