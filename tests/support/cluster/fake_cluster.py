"""A cluster without processes, which only records the verbs that were called."""

from __future__ import annotations

from collections.abc import Callable

from rocketmq_emulator.cluster.node_view import RUNNING_STATES, NodeState, NodeView, TopicMade
from rocketmq_emulator.cluster.reply_rules import ReplyRuleRefused
from rocketmq_emulator.cluster.spec import ClusterSpec
from rocketmq_emulator.cluster.world import UnknownNode
from rocketmq_emulator.protocol.bodies.extensions import MisuseView, ReplyRule, ReplyRuleState
from rocketmq_emulator.protocol.bodies.topics import TopicConfig
from rocketmq_emulator.protocol.messages.misuses import FoundMisuse

RESULTS: dict[str, NodeState] = {
    "start": "running",
    "stop": "stopped",
    "kill": "dead",
    "restart": "running",
    "pause": "paused",
    "resume": "running",
}


class FakeCluster:
    kind = "processes"
    namesrv = "127.0.0.1:9876"
    has_links = False

    def __init__(self) -> None:
        self.spec = ClusterSpec(brokers=1)
        self.brokers = {"broker-a": "127.0.0.1:10911"}
        self.states: dict[str, NodeState] = {"namesrv": "running", "broker-a": "running"}
        self.done: list[tuple[object, ...]] = []
        self.rules: dict[int, ReplyRule] = {}
        self.fails: Exception | None = None

    def misuses(self) -> tuple[MisuseView, ...]:
        return (MisuseView.of(FoundMisuse("single_bar", "c", "g", "orders", "'a | b'")),)

    @property
    def nodes(self) -> tuple[NodeView, ...]:
        return tuple(map(self.node, self.states))

    def node(self, name: str) -> NodeView:
        if name not in self.states:
            raise UnknownNode(name, self.states)
        role = "broker" if name in self.brokers else "nameserver"
        address = self.brokers.get(name, self.namesrv)
        state = self.states[name]
        pid = 7 if state in RUNNING_STATES else None
        return NodeView(name, role, address, pid, state, since_ms=1)

    def __getattr__(self, verb: str) -> Callable[[str], None]:
        if verb not in RESULTS:
            raise AttributeError(verb)

        def do(name: str) -> None:
            self.done.append((verb, name))
            if self.fails is not None:
                raise self.fails
            self.states[name] = RESULTS[verb]

        return do

    def skew_clock(self, name: str, ms: int) -> None:
        self.done.append(("skew_clock", name, ms))

    def make_topic(self, config: TopicConfig) -> TopicMade:
        if self.fails is not None:
            raise self.fails
        self.done.append(("make_topic", config))
        missing = {name: self.states[name] for name in self.brokers if not self._runs(name)}
        made = [name for name in self.brokers if self._runs(name)]
        return TopicMade.of(config.topic_name or "", made, missing)

    def _runs(self, name: str) -> bool:
        return self.states[name] == "running"

    def set_reply_rule(self, node: str, rule: ReplyRule) -> int:
        if self.fails is not None:
            raise self.fails
        self.rules[len(self.rules) + 1] = rule
        return len(self.rules)

    def reply_rules(self, node: str) -> tuple[ReplyRuleState, ...]:
        return tuple(
            ReplyRuleState(rule_id=number, applied_count=0, left_count=None, rule=rule)
            for number, rule in self.rules.items()
        )

    def remove_reply_rule(self, node: str, rule_id: int | None = None) -> tuple[int, ...]:
        gone = tuple(number for number in self.rules if rule_id in (None, number))
        for number in gone:
            del self.rules[number]
        return gone


def rules_refused() -> ReplyRuleRefused:
    return ReplyRuleRefused("broker-a", 16, "reply rules are not allowed here")
