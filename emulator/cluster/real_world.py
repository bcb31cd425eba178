"""What the worlds of real time share: their verbs block, their nodes listen on real ports."""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, Self

from emulator.cluster.world import World

if TYPE_CHECKING:
    from types import TracebackType

    from protocol.bodies.reply_rules import ReplyRule, ReplyRuleState


class RealWorld(World[None]):
    """A cluster that programs outside of it can use.  ``ready_s``: how long its start took."""

    blocks = True
    ready_s: float = 0.0

    @abstractmethod
    def __enter__(self) -> Self:
        """Start everything.  Raises what stood in the way, with nothing left running."""

    @abstractmethod
    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Stop everything."""

    @property
    @abstractmethod
    def pids(self) -> dict[str, int]:
        """Process ids by node; several nodes may share one."""

    @abstractmethod
    def check_alive(self) -> None:
        """Raises what ended a node that nobody stopped, if anything did."""

    @abstractmethod
    def log_lines(self) -> list[str]:
        """New lines of the nodes' logs."""

    def restart(self, name: str) -> None:
        """Kill it if it runs, then start it."""
        self.kill(name)
        self.start(name)

    # Reply rules: they raise ReplyRuleRefused, and OSError when nobody answers there. ----

    def set_reply_rule(self, node: str, rule: ReplyRule) -> int:
        """Let *node* obey *rule* behind those it has; the rule's id at that node."""
        from emulator.cluster import reply_rules  # noqa: PLC0415  # see there

        call = reply_rules.set_rule(rule)
        return reply_rules.call_blocking(node, self._address_of(node), call)

    def reply_rules(self, node: str) -> tuple[ReplyRuleState, ...]:
        """The rules that hold at *node* with what they did, in the order they are asked."""
        from emulator.cluster import reply_rules  # noqa: PLC0415  # see there

        call = reply_rules.list_rules()
        return reply_rules.call_blocking(node, self._address_of(node), call)

    def remove_reply_rule(self, node: str, rule_id: int | None = None) -> tuple[int, ...]:
        """Remove one rule, or all; the ids of those that held until now."""
        from emulator.cluster import reply_rules  # noqa: PLC0415  # see there

        call = reply_rules.remove_rule(rule_id)
        return reply_rules.call_blocking(node, self._address_of(node), call)
