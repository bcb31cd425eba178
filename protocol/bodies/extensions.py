"""Bodies of the calls that only this emulator answers (codes 9000 to 9999): reply rules, clock,
facts, the address that a broker registers, busy pools, the overview of a broker.

    ReplyRule(code=RequestCode.SEND_MESSAGE_V2, count=5, error_code=ResponseCode.SYSTEM_BUSY)
    ReplyRule(code=RequestCode.HEART_BEAT, client_id="10.0.0.7@1", cut_connection=True)
    BusyPool(pool="send", threads=1, service_ms=50)
    BusyPool(pool="send")                             no longer busy: no request waits

Plain JSON; the keys are the names of the fields.  Client and server check a body when it is
constructed; the error names the field.  Upstream has no call like GET_BROKER_OVERVIEW (9005):
its tools send a request for each topic and each group.  The rows are JSON arrays, because there
are many and a screen requests them every second.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from typing import Literal, TypeAlias, TypeVar, get_args

import msgspec
from msgspec.structs import force_setattr

from rocketmq_emulator.protocol.codes import (
    EXTENSION_CODES,
    REQUEST_NAMES,
    REQUEST_NUMBERS,
    RESPONSE_NUMBERS,
)
from rocketmq_emulator.protocol.fields import BadFields
from rocketmq_emulator.protocol.flags import PERM_READ_WRITE
from rocketmq_emulator.protocol.messages.misuses import FoundMisuse, MisuseReport, merged
from rocketmq_emulator.protocol.messages.names import (
    is_dlq_topic,
    is_retry_topic,
    is_system_topic,
)
from rocketmq_emulator.protocol.messages.validation import nearest, suggestion

# Clock, facts and address (9003, 9004, 9007, 9008), and the base of all bodies ---------


SKEW_MS_MAX = 10 * 365 * 24 * 3_600_000  # ten years
DRIFT_PPM_MAX = 500_000  # 50 % too fast, or too slow
ADVANCE_MS_MAX = 365 * 24 * 3_600_000  # a year
FACTS_WAIT_MS_MAX = 30_000


class ExtensionBody(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A body of our own: snake_case names, unknown ones are refused."""


class ClockSkew(ExtensionBody, frozen=True, omit_defaults=True):
    """The server's wall clock is ``ms`` ahead of the true time, or behind if negative; 0: correct.

    It also gains ``drift_ppm`` millionths of the time since ``since_ms`` (true time), or loses
    them if negative.  Without ``since_ms`` the drift starts now, or goes on if it is the same.
    """

    ms: int
    drift_ppm: int = 0
    since_ms: int | None = None

    def __post_init__(self) -> None:
        if abs(self.ms) > SKEW_MS_MAX:
            raise ValueError(f"ms is at most {SKEW_MS_MAX} either way, not {self.ms}")
        if abs(self.drift_ppm) > DRIFT_PPM_MAX:
            text = f"drift_ppm is at most {DRIFT_PPM_MAX} either way, not {self.drift_ppm}"
            raise ValueError(text)


class FetchFacts(ExtensionBody, frozen=True):
    """Facts from now on, by the names of their kinds (None: all that are not on demand).

    The answer waits up to ``wait_ms`` for the first one.
    """

    kinds: tuple[str, ...] | None = None
    wait_ms: int = 0

    def __post_init__(self) -> None:
        if not 0 <= self.wait_ms <= FACTS_WAIT_MS_MAX:
            text = f"wait_ms is a number from 0 to {FACTS_WAIT_MS_MAX}, not {self.wait_ms}"
            raise ValueError(text)


class AdvanceTime(ExtensionBody, frozen=True):
    """Messages that are due within the next ``ms`` are due now."""

    ms: int

    def __post_init__(self) -> None:
        if not 0 <= self.ms <= ADVANCE_MS_MAX:
            raise ValueError(f"ms is a number from 0 to {ADVANCE_MS_MAX}, not {self.ms}")


class AdvanceTimeReply(ExtensionBody, frozen=True):
    """How many messages waited for their time, and how many of them are due now."""

    due_count: int
    waiting_count: int


class AdvertisedAddress(ExtensionBody, frozen=True):
    """The address that a broker registers for clients from now on, ``host:port``.

    ``store_host`` is the same with an IP: message ids carry it.
    """

    address: str
    store_host: str


B = TypeVar("B", bound=ExtensionBody)


def encode_extension_body(body: ExtensionBody) -> bytes:
    """Plain JSON; members that have their defaults are left out of rules."""
    return msgspec.json.encode(body)


def decode_extension_body(data: bytes, kind: type[B]) -> B:
    """The body; an empty one has all defaults.  Raises ``BadFields`` with the field's name."""
    try:
        return msgspec.json.decode(data or b"{}", type=kind)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        text = with_suggestion(str(error), kind)
        raise BadFields(f"the body is no {kind.__name__}: {text}") from error


_UNKNOWN_FIELD = re.compile(r"Object contains unknown field `(\w+)`")


def with_suggestion(text: str, kind: type) -> str:
    """*text*, an error of msgspec about a value of *kind*, with what may have been meant."""
    found = _UNKNOWN_FIELD.match(text)
    if found is None or not issubclass(kind, msgspec.Struct):
        return text
    return f"there is no field {found[1]}{suggestion(found[1], kind.__struct_encode_fields__)}"


# Reply rules (9000 to 9002) -----------------------------------------------------------


DELAY_MS_MAX = 3_600_000
COUNT_MAX = 1_000_000_000
TEXT_CHARS_MAX = 255  # of a topic, a group, a client id, a remark
_CODE_MAX = (1 << 31) - 1


class ReplyRule(ExtensionBody, frozen=True, omit_defaults=True):
    """Requests that match all given fields are answered by the verdict.

    The match: ``code`` of the request, its ``topic``, ``group`` and ``client_id``, the
    ``broker_name`` in it (None: any), ``probability`` from 0 to 1.  The rule ends after
    ``count`` requests (None: when it is removed).

    The verdict: ``delay_ms`` holds the request first; then it is answered with
    ``error_code`` and ``remark``, or not at all (``no_answer``), or by closing its connection
    (``cut_connection``), or, with a delay alone, by its handler.  In the other three cases the
    handler is not called: nothing is stored.

    Codes may be given by RocketMQ's names: ``code="SEND_MESSAGE_V2"``, ``error_code=
    "SYSTEM_BUSY"``; in the rule they are numbers.

    Raises ``ValueError`` with the name of the field that is wrong.
    """

    code: int | str | None = None
    topic: str | None = None
    group: str | None = None
    client_id: str | None = None
    broker_name: str | None = None
    count: int | None = None
    probability: float = 1.0
    delay_ms: int = 0
    error_code: int | str | None = None
    remark: str = ""
    no_answer: bool = False
    cut_connection: bool = False

    def __post_init__(self) -> None:
        """Check the values; types are checked only where a rule is decoded."""
        if self.code is not None:
            code = _number(self.code, REQUEST_NUMBERS, "code", "request")
            _check_code(code)
            force_setattr(self, "code", code)
        if self.error_code is not None:
            error = _number(self.error_code, RESPONSE_NUMBERS, "error_code", "response")
            if error == 0 or not -_CODE_MAX <= error <= _CODE_MAX:
                raise ValueError(f"error_code is the code of an error, not {error}")
            force_setattr(self, "error_code", error)
        for name in ("topic", "group", "client_id", "broker_name"):
            text = getattr(self, name)
            if text is not None and not 1 <= len(text) <= TEXT_CHARS_MAX:
                raise ValueError(f"{name} has 1 to {TEXT_CHARS_MAX} characters")
        if self.count is not None and not 1 <= self.count <= COUNT_MAX:
            raise ValueError(f"count is a number from 1 to {COUNT_MAX}, not {self.count}")
        if not 0 <= self.probability <= 1:
            raise ValueError(f"probability is a number from 0 to 1, not {self.probability}")
        if not 0 <= self.delay_ms <= DELAY_MS_MAX:
            raise ValueError(f"delay_ms is a number from 0 to {DELAY_MS_MAX}, not {self.delay_ms}")
        self._check_verdict()

    def _check_verdict(self) -> None:
        if self.remark and self.error_code is None:
            raise ValueError("remark goes with an error_code only")
        if len(self.remark) > TEXT_CHARS_MAX:
            raise ValueError(f"remark has at most {TEXT_CHARS_MAX} characters")
        verdicts = self.verdicts
        if not verdicts:
            raise ValueError(
                "a rule has a verdict: delay_ms, error_code, no_answer or cut_connection"
            )
        if len(verdicts) - (self.delay_ms > 0) > 1:
            raise ValueError("a rule has only one of error_code, no_answer and cut_connection")

    @property
    def verdicts(self) -> tuple[str, ...]:
        """The actions of the rule, in order: ``("delay", "cut")``."""
        given = (
            ("delay", self.delay_ms > 0),
            ("error", self.error_code is not None),
            ("no answer", self.no_answer),
            ("cut", self.cut_connection),
        )
        return tuple(word for word, is_given in given if is_given)


class ReplyRuleId(ExtensionBody, frozen=True):
    """The reply to SET_REPLY_RULE.  Ids count up from 1 in each run of a server."""

    rule_id: int


class ReplyRuleState(ExtensionBody, frozen=True):
    """An active rule: how many requests it was applied to, and how many are left."""

    rule_id: int
    applied_count: int
    left_count: int | None  # None: until it is removed
    rule: ReplyRule


class ReplyRuleList(ExtensionBody, frozen=True):
    """The reply to LIST_REPLY_RULES, in the order in which rules are tried."""

    rules: tuple[ReplyRuleState, ...] = ()


class RemoveReplyRule(ExtensionBody, frozen=True):
    """The id of the rule to remove; None: all rules."""

    rule_id: int | None = None


class RemovedReplyRules(ExtensionBody, frozen=True):
    """The reply to REMOVE_REPLY_RULE: the ids of the rules that were removed."""

    rule_ids: tuple[int, ...]


def _number(given: int | str, numbers: Mapping[str, int], field: str, what: str) -> int:
    """The code that *given* is or names.  Raises ``ValueError`` with the nearest name."""
    if not isinstance(given, str):
        return given
    number = numbers.get(given.upper())
    if number is None:
        near = suggestion(given.upper(), numbers)
        raise ValueError(f"{field} {given!r} is no {what} of RocketMQ{near}")
    return number


def _check_code(code: int) -> None:
    if code in EXTENSION_CODES:
        raise ValueError(
            f"code {code} manages rules: no rule matches {EXTENSION_CODES[0]} and above"
        )
    if code not in REQUEST_NAMES:
        raise ValueError(f"code {code} is no request that RocketMQ knows")


# Busy pools (9006) --------------------------------------------------------------------


PoolName: TypeAlias = Literal[
    "send",
    "pull",
    "lite_pull",
    "query",
    "client_manage",
    "consumer_manage",
    "heartbeat",
    "end_transaction",
    "load_balance",
    "reply",
    "admin",
]
POOL_NAMES: tuple[PoolName, ...] = get_args(PoolName)
THREADS_MAX = 10_000
SERVICE_MS_MAX = 3_600_000
QUEUE_MAX = 1_000_000  # the largest of upstream's


class BusyPool(ExtensionBody, frozen=True, omit_defaults=True):
    """From now on each request of ``pool`` occupies one of its ``threads`` for ``service_ms``.

    ``queue_max`` requests may wait for a thread.  None: upstream's numbers, those of ``threads``
    as on a machine with four processors.  With 0 ms the pool is no longer busy.

    With ``holds_log`` a send takes its time in the put, under the lock of the log: only one put
    at a time, and the page cache is busy once it takes longer than ``page_cache_busy_ms``.

    Raises ``ValueError`` with the name of the field that is wrong.
    """

    pool: PoolName
    threads: int | None = None
    service_ms: float = 0.0
    queue_max: int | None = None
    holds_log: bool = False

    def __post_init__(self) -> None:
        if self.pool not in POOL_NAMES:
            raise ValueError(f"pool is one of {', '.join(POOL_NAMES)}, not {self.pool}")
        if self.holds_log and self.pool != "send":
            raise ValueError(f"holds_log is for the pool send, not {self.pool}")
        if self.threads is not None and not 1 <= self.threads <= THREADS_MAX:
            raise ValueError(f"threads is a number from 1 to {THREADS_MAX}, not {self.threads}")
        if not 0 <= self.service_ms <= SERVICE_MS_MAX:
            text = f"service_ms is a number from 0 to {SERVICE_MS_MAX}, not {self.service_ms}"
            raise ValueError(text)
        if self.queue_max is not None and not 0 <= self.queue_max <= QUEUE_MAX:
            raise ValueError(f"queue_max is a number from 0 to {QUEUE_MAX}, not {self.queue_max}")


class BusyPoolState(ExtensionBody, frozen=True):
    """The pool until this call: its counts since it became busy."""

    pool: PoolName
    request_count: int  # requests that arrived since then; 0 if it is not busy
    waiting_count: int  # of those, that waited for a thread until now
    shed_count: int  # of those that waited, how many were answered SYSTEM_BUSY
    overload_count: int  # answered SYSTEM_BUSY at once: the queue was full, or the log busy


# The overview of a broker (9005) ------------------------------------------------------


class MemberView(msgspec.Struct, frozen=True):
    """A client that is online in a group."""

    client: str
    address: str
    language: str


class MisuseView(msgspec.Struct, frozen=True):
    """A misuse that was noticed; ``text`` is the sentence with its cure."""

    misuse: str
    client: str
    group: str
    topic: str
    detail: str
    text: str

    @classmethod
    def of(cls, found: FoundMisuse) -> MisuseView:
        """*found* for people and programs."""
        return cls(*found._replace(detail=found.detail.strip()), found.text)


class TopicRow(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A topic on one broker; ``kept`` of the ``stored`` messages still exist.

    ``queues`` may be read; ``perm`` is that of the routes, which the broker's own may restrict.
    """

    name: str
    queues: int
    kept: int
    stored: int
    write_queues: int | None = None  # None: as many as ``queues``
    perm: int = PERM_READ_WRITE


class QueueRow(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A queue of a group: its end offset, and the offset that the group has committed."""

    topic: str
    queue_id: int
    end: int
    committed: int


class GroupRow(msgspec.Struct, frozen=True):
    """A group on one broker; ``model`` is empty while no member is online."""

    name: str
    model: str = ""
    members: tuple[MemberView, ...] = ()
    subscriptions: dict[str, str] = {}  # expression by topic
    queues: tuple[QueueRow, ...] = ()  # those of one topic by their numbers


ReplicaRole: TypeAlias = Literal["master", "slave", "acting master", "none"]


class ReplicaRow(msgspec.Struct, frozen=True):
    """What a broker is among those of its *name*; "none": its controller has given it no role.

    ``log_end`` is in bytes, None if it is unknown.  In controller mode ``epoch`` is the last one
    of its log, if it has one, and ``sync_state_set`` has the ids of the slaves that a master
    counts as in sync.
    """

    name: str
    broker_id: int
    role: ReplicaRole
    log_end: int | None
    epoch: int | None = None
    sync_state_set: tuple[int, ...] | None = None


class BrokerOverview(msgspec.Struct, frozen=True):
    """All topics and groups, without retry, dead-letter and system topics, and system groups.

    At most ``ROWS_MAX`` of each; the others are counted.
    """

    topics: tuple[TopicRow, ...] = ()
    groups: tuple[GroupRow, ...] = ()
    more_topics: int = 0
    more_groups: int = 0
    misuses: MisuseReport = MisuseReport()
    replica: ReplicaRow | None = None  # None: a broker that is no emulator


ROWS_MAX = 1_000


def misuses_of(founds: Iterable[BrokerOverview]) -> tuple[MisuseView, ...]:
    """The misuses that the brokers noticed, and subscriptions to topics that none of them has."""
    every = list(founds)
    topics = {topic.name for found in every for topic in found.topics}
    is_whole = not any(found.more_topics for found in every)
    missing = [
        FoundMisuse("topic_nobody_made", member.client, group.name, topic, _meant(topic, topics))
        for found in every
        for group in found.groups
        for member in group.members[:1]
        for topic in group.subscriptions
        if is_whole and topic not in topics and not _is_internal(topic)
    ]
    reports = [*(found.misuses for found in every), MisuseReport(tuple(missing))]
    return tuple(map(MisuseView.of, merged(reports)))


def _meant(topic: str, topics: Collection[str]) -> str:
    """The detail of a topic that does not exist: the name that is most similar."""
    if len(topics) > ROWS_MAX:
        return ""
    near = nearest(topic, topics)
    return f" (did you mean {near}?)" if near else ""


def _is_internal(topic: str) -> bool:
    return is_retry_topic(topic) or is_dlq_topic(topic) or is_system_topic(topic)
