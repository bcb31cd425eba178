"""Reply rules at a server: set, listed and removed by extension codes, applied in its chain.

The first rule that matches a request decides its result.  A server without rules has no link in
its chain, so rules cost nothing until one is set.  No rule applies to the calls that manage
rules.  They are refused unless the server was started with ``reply_rules_allowed``: a client
that may set rules can stop a cluster.

The topics, groups, client and broker of a request are read from its typed ext fields by their
names, and for a few calls from the body.  Requests that only send or pull do not name their
client: it is known by the heartbeats it sent on the same connection (``Peer.client_id``).
"""

from __future__ import annotations

import functools
import random
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any, Literal, NamedTuple, TypeVar

import msgspec

from rocketmq_emulator.facts import ReplyRuleApplied, ReplyRuleRemoved, ReplyRuleSet
from rocketmq_emulator.net.dispatch import Defer, HookPosition, Row, Table, table_of
from rocketmq_emulator.net.remoting import Remoting
from rocketmq_emulator.net.results import NO_REPLY, Call, Refusal, Reply, Result
from rocketmq_emulator.protocol import catalog
from rocketmq_emulator.protocol.bodies.body import decode_body
from rocketmq_emulator.protocol.bodies.extensions import (
    ExtensionBody,
    RemovedReplyRules,
    RemoveReplyRule,
    ReplyRule,
    ReplyRuleId,
    ReplyRuleList,
    ReplyRuleState,
    decode_extension_body,
    encode_extension_body,
)
from rocketmq_emulator.protocol.bodies.groups import (
    CheckClientRequestBody,
    ConsumerData,
    HeartbeatData,
    LockBatchRequestBody,
    SubscriptionGroupConfig,
)
from rocketmq_emulator.protocol.codes import EXTENSION_CODES, RequestCode, ResponseCode
from rocketmq_emulator.protocol.fields import BadFields, Header

RULES_MAX = 1_000  # each request is compared with each rule
DELAYED_MAX = 100_000  # delayed at one time: as many as held pulls
B = TypeVar("B", bound=ExtensionBody)


class _SetRule(msgspec.Struct):
    """A rule that is set."""

    rule_id: int
    rule: ReplyRule
    applied_count: int = 0

    @property
    def left_count(self) -> int | None:
        count = self.rule.count
        return None if count is None else count - self.applied_count


class ReplyRules:
    """The rules of one *server*; *rng* draws for rules with a probability below 1."""

    def __init__(self, server: Remoting, *, allowed: bool, rng: random.Random) -> None:
        self._server = server
        self._allowed = allowed
        self._rng = rng
        self._rules: dict[int, _SetRule] = {}
        self._last_id = 0
        self._delayed_count = 0
        self._resets = 0  # how many times ``reset`` was called

    def handlers(self) -> Table:
        """The calls that manage rules, for the server's table."""
        rows = (
            Row(catalog.SET_REPLY_RULE, self.set_rule),
            Row(catalog.LIST_REPLY_RULES, self.list_rules),
            Row(catalog.REMOVE_REPLY_RULE, self.remove_rule),
        )
        return table_of(rows, self._server.release)

    # Managing -------------------------------------------------------------------------

    def set_rule(self, call: Call[Header]) -> Result:
        """Add a rule after the ones that are set; it applies from the next request on."""
        self._check_allowed()
        rule = extension_body_of(call, ReplyRule)
        if len(self._rules) >= RULES_MAX:
            raise Refusal(ResponseCode.SYSTEM_BUSY, f"there are {RULES_MAX} rules already")
        self._last_id += 1
        self._rules[self._last_id] = _SetRule(self._last_id, rule)
        text = encode_extension_body(rule).decode()
        self._server.note(ReplyRuleSet(self._last_id, text, call.peer.address))
        self._server.chain.put(HookPosition.REPLY_RULES, self.decide)
        return Reply(body=encode_extension_body(ReplyRuleId(rule_id=self._last_id)))

    def list_rules(self, _call: Call[Header]) -> Result:
        """Every rule that is set, in the order in which they are compared."""
        self._check_allowed()
        rules = tuple(
            ReplyRuleState(
                rule_id=held.rule_id,
                applied_count=held.applied_count,
                left_count=held.left_count,
                rule=held.rule,
            )
            for held in self._rules.values()
        )
        return Reply(body=encode_extension_body(ReplyRuleList(rules=rules)))

    def remove_rule(self, call: Call[Header]) -> Result:
        """Remove one rule, or all; a rule that has ended already is no error."""
        self._check_allowed()
        wanted = extension_body_of(call, RemoveReplyRule).rule_id
        ids = tuple(number for number in self._rules if wanted in (None, number))
        for number in ids:
            self._end(self._rules[number], "asked")
        return Reply(body=encode_extension_body(RemovedReplyRules(rule_ids=ids)))

    def reset(self) -> None:
        """Remove all rules; requests that they delay are refused when their delay is over."""
        for held in list(self._rules.values()):
            self._end(held, "asked")
        self._resets += 1

    # Applying -------------------------------------------------------------------------

    def decide(self, call: Call[Any]) -> Result | Defer | None:
        """The link of the chain: the verdict of the first rule that matches, else None."""
        code = call.command.code
        if code in EXTENSION_CODES:
            return None
        names: RequestNames | None = None
        for held in self._rules.values():
            rule = held.rule
            if rule.code is not None and rule.code != code:
                continue
            if rule.topic or rule.group or rule.client_id or rule.broker_name:
                names = names or names_of(call)
                if not _matches(rule, names):
                    continue
            if rule.probability < 1 and self._rng.random() >= rule.probability:
                continue
            return self._apply(held, call)
        return None

    def _apply(self, held: _SetRule, call: Call[Any]) -> Result | Defer | None:
        rule = held.rule
        held.applied_count += 1
        verdict = ", ".join(rule.verdicts)
        code, peer = call.command.code, call.peer.address
        self._server.note(ReplyRuleApplied(held.rule_id, peer, code, verdict))
        if held.left_count == 0:
            self._end(held, "count reached")
        if not rule.delay_ms:
            return self._result_of(rule, call)
        if self._delayed_count >= DELAYED_MAX:
            raise Refusal(ResponseCode.SYSTEM_BUSY, f"{DELAYED_MAX} requests are delayed already")
        self._delayed_count += 1
        return Defer(call.now_ms + rule.delay_ms, partial(self._after_delay, rule, self._resets))

    def _after_delay(self, rule: ReplyRule, resets: int, call: Call[Any]) -> Result | None:
        self._delayed_count -= 1
        if resets != self._resets:
            remark = "this server was reset while a reply rule delayed the request"
            raise Refusal(ResponseCode.SYSTEM_BUSY, remark)
        return self._result_of(rule, call)

    def _result_of(self, rule: ReplyRule, call: Call[Any]) -> Result | None:
        """The verdict without its delay; None: the handler is called."""
        if rule.error_code is not None:
            return Reply(code=int(rule.error_code), remark=rule.remark or None)
        if rule.cut_connection:
            self._server.close(call.peer)
            return NO_REPLY
        return NO_REPLY if rule.no_answer else None

    # Inside ---------------------------------------------------------------------------

    def _check_allowed(self) -> None:
        check_allowed("reply rules are", allowed=self._allowed)

    def _end(self, held: _SetRule, reason: Literal["asked", "count reached"]) -> None:
        del self._rules[held.rule_id]
        self._server.note(ReplyRuleRemoved(held.rule_id, reason, held.applied_count))
        if not self._rules:
            self._server.chain.put(HookPosition.REPLY_RULES, None)


def check_allowed(what: str, *, allowed: bool) -> None:
    """Raises ``Refusal`` for an extension call, unless the server's settings allow them."""
    if not allowed:
        remark = f"{what} not allowed here: start this server with reply_rules_allowed=true"
        raise Refusal(ResponseCode.NO_PERMISSION, remark)


def extension_body_of(call: Call[Header], kind: type[B]) -> B:
    """The body of an extension call.  Raises ``Refusal`` if it cannot be decoded."""
    try:
        return decode_extension_body(call.body, kind)
    except BadFields as error:
        raise Refusal(ResponseCode.INVALID_PARAMETER, str(error)) from error


def install_reply_rules(server: Remoting, *, allowed: bool, rng: random.Random) -> ReplyRules:
    """Let *server* answer the calls that manage rules, and apply the rules that are set."""
    rules = ReplyRules(server, allowed=allowed, rng=rng)
    server.handlers = {**server.handlers, **rules.handlers()}
    return rules


def _matches(rule: ReplyRule, names: RequestNames) -> bool:
    """Does a request with these *names* match?  A field that *rule* leaves out matches all."""
    wanted = (
        (rule.topic, names.topics),
        (rule.group, names.groups),
        (rule.client_id, names.client_ids),
        (rule.broker_name, names.broker_names),
    )
    return all(name is None or name in named for name, named in wanted)


# Names in a request -------------------------------------------------------------------


TOPIC_FIELDS = frozenset({"topic", "origin_topic"})
GROUP_FIELDS = frozenset(
    {"group", "consumer_group", "producer_group", "group_name", "src_group", "dest_group"}
)
CLIENT_FIELDS = frozenset({"client_id"})
BROKER_FIELDS = frozenset({"broker_name"})


class RequestNames(NamedTuple):
    """All topics, groups, clients and brokers of a request; an unknown client is left out."""

    topics: frozenset[str]
    groups: frozenset[str]
    client_ids: frozenset[str]
    broker_names: frozenset[str]


def names_of(call: Call[Any]) -> RequestNames:
    """The names in *call*; a body that cannot be decoded adds none."""
    request: Header = call.request
    topics, groups, client_ids, broker_names = (
        {getattr(request, name) for name in names} for names in _fields(type(request))
    )
    if call.peer.client_id is not None:
        client_ids.add(call.peer.client_id)
    if (read := _BODIES.get(call.command.code)) is not None:
        try:
            more = read(call.body)
        except BadFields:
            more = _NOTHING
        topics |= more.topics
        groups |= more.groups
        client_ids |= more.client_ids
    every = (topics, groups, client_ids, broker_names)
    return RequestNames(*(frozenset(found) - {None} for found in every))


@functools.cache
def _fields(kind: type[Header]) -> tuple[tuple[str, ...], ...]:
    """The fields of *kind* that name a topic, a group, a client, a broker."""
    own = [field.name for field in msgspec.structs.fields(kind)]
    return tuple(
        tuple(name for name in own if name in wanted)
        for wanted in (TOPIC_FIELDS, GROUP_FIELDS, CLIENT_FIELDS, BROKER_FIELDS)
    )


def _names(
    *,
    topics: Iterable[str | None] = (),
    groups: Iterable[str | None] = (),
    client_ids: Iterable[str | None] = (),
) -> RequestNames:
    named = (topics, groups, client_ids)
    one, two, three = (frozenset(name for name in given if name) for given in named)
    return RequestNames(one, two, three, frozenset())


_NOTHING = _names()


def _of_heartbeat(body: bytes) -> RequestNames:
    data = decode_body(body, HeartbeatData)
    consumers, producers = data.consumer_data_set, data.producer_data_set
    return _names(
        topics=(topic for consumer in consumers for topic in _topics(consumer)),
        groups=[c.group_name for c in consumers] + [p.group_name for p in producers],
        client_ids=[data.client_id],
    )


def _topics(consumer: ConsumerData) -> list[str | None]:
    return [subscription.topic for subscription in consumer.subscription_data_set]


def _of_lock(body: bytes) -> RequestNames:
    data = decode_body(body, LockBatchRequestBody)
    return _names(
        topics=(queue.topic for queue in data.mq_set),
        groups=[data.consumer_group],
        client_ids=[data.client_id],
    )


def _of_check(body: bytes) -> RequestNames:
    data = decode_body(body, CheckClientRequestBody)
    subscription = data.subscription_data
    topics = [] if subscription is None else [subscription.topic]
    return _names(topics=topics, groups=[data.group], client_ids=[data.client_id])


def _of_group(body: bytes) -> RequestNames:
    return _names(groups=[decode_body(body, SubscriptionGroupConfig).group_name])


_BODIES: Mapping[int, Callable[[bytes], RequestNames]] = {
    RequestCode.HEART_BEAT: _of_heartbeat,
    RequestCode.LOCK_BATCH_MQ: _of_lock,
    RequestCode.UNLOCK_BATCH_MQ: _of_lock,
    RequestCode.CHECK_CLIENT_CONFIG: _of_check,
    RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP: _of_group,
}
