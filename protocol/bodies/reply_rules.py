"""Reply rules as values: which requests a server does not answer as usual, and how instead.

    ReplyRule(code=RequestCode.SEND_MESSAGE_V2, count=5, error_code=ResponseCode.SYSTEM_BUSY)
    ReplyRule(code=RequestCode.PULL_MESSAGE, delay_ms=700)
    ReplyRule(code=RequestCode.HEART_BEAT, client_id="10.0.0.7@1", cut_connection=True)

The bodies of our own calls (9000 to 9002) are plain JSON with these very names.  A rule
is checked when it is constructed, by client and server; the error names the field.
"""

from __future__ import annotations

from protocol.bodies.own import OwnBody
from protocol.codes import OWN_CODES, REQUEST_NAMES

DELAY_MS_MAX = 3_600_000
COUNT_MAX = 1_000_000_000
TEXT_CHARS_MAX = 255  # of a topic, a group, a client id, a remark
_CODE_MAX = (1 << 31) - 1


class ReplyRule(OwnBody, frozen=True, omit_defaults=True):
    """Requests that match everything given are answered by the verdict.

    The match: ``code`` of the request, ``topic``, ``group`` and ``client_id`` it is about, the
    ``broker_name`` it bears (None: any), ``probability`` from 0 to 1.  The rule ends after
    ``count`` requests (None: when it is removed).

    The verdict: ``delay_ms`` holds the request first; then it is answered with
    ``error_code`` and ``remark``, or not at all (``no_answer``), or by closing its connection
    (``cut_connection``), or, with a delay alone, by its handler.  With the other three the
    handler never sees the request: nothing is stored.

    Raises ``ValueError`` with the name of the field that is wrong.
    """

    code: int | None = None
    topic: str | None = None
    group: str | None = None
    client_id: str | None = None
    broker_name: str | None = None
    count: int | None = None
    probability: float = 1.0
    delay_ms: int = 0
    error_code: int | None = None
    remark: str = ""
    no_answer: bool = False
    cut_connection: bool = False

    def __post_init__(self) -> None:
        """Check the values; types are checked only where a rule is decoded."""
        if self.code is not None:
            _check_code(self.code)
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
        code = self.error_code
        if code is not None and (code == 0 or not -_CODE_MAX <= code <= _CODE_MAX):
            raise ValueError(f"error_code is the code of an error, not {code}")
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
            raise ValueError("of error_code, no_answer and cut_connection a rule has one")

    @property
    def verdicts(self) -> tuple[str, ...]:
        """What the rule does, in order, in words: ``("delay", "cut")``."""
        given = (
            ("delay", self.delay_ms > 0),
            ("error", self.error_code is not None),
            ("no answer", self.no_answer),
            ("cut", self.cut_connection),
        )
        return tuple(word for word, is_given in given if is_given)


class ReplyRuleId(OwnBody, frozen=True):
    """The reply to SET_REPLY_RULE.  Ids count up from 1 in each run of a server."""

    rule_id: int


class ReplyRuleState(OwnBody, frozen=True):
    """An active rule: how many requests it was applied to, and how many are left."""

    rule_id: int
    applied_count: int
    left_count: int | None  # None: until it is removed
    rule: ReplyRule


class ReplyRuleList(OwnBody, frozen=True):
    """The reply to LIST_REPLY_RULES, in the order in which rules are tried."""

    rules: tuple[ReplyRuleState, ...] = ()


class RemoveReplyRule(OwnBody, frozen=True):
    """The id of the rule to remove; None: all rules."""

    rule_id: int | None = None


class RemovedReplyRules(OwnBody, frozen=True):
    """The reply to REMOVE_REPLY_RULE: the ids of the rules that were removed."""

    rule_ids: tuple[int, ...]


def _check_code(code: int) -> None:
    if code in OWN_CODES:
        raise ValueError(f"code {code} manages rules: no rule matches {OWN_CODES[0]} and above")
    if code not in REQUEST_NAMES:
        raise ValueError(f"code {code} is no request that RocketMQ knows")
