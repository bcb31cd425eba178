"""A journal of one half message, made by hand."""

from __future__ import annotations

import json
from typing import Literal

from rocketmq_emulator.facts import (
    HalfMessageSent,
    HalfMessageStored,
    ImmuneHalfStoredAgain,
    LocalTransactionEnded,
    NodeStarted,
    PowerLost,
    Queue,
    TransactionAnswered,
    TransactionChecked,
    TransactionEnded,
)
from rocketmq_emulator.protocol.messages.names import (
    TRANS_CHECK_MAX_TIME_TOPIC,
    TRANS_HALF_TOPIC,
    TRANS_OP_HALF_TOPIC,
)
from tests.support.checks.small_journals import Q0, RECORD_BYTES, AJournal, objections

HALF = Queue(TRANS_HALF_TOPIC, "broker-a", 0)
OPS = Queue(TRANS_OP_HALF_TOPIC, "broker-a", 0)
GIVEN_UP = Queue(TRANS_CHECK_MAX_TIME_TOPIC, "broker-a", 0)
KEY, GROUP, NODE = "0-0", "shop", "producer"
Outcome = Literal["commit", "rollback", "unknown"]


class ATransaction(AJournal):
    """A journal of one half message, whose records have the offsets 0, 1, 2 …"""

    def __init__(self, release: str = "4.9.7", plan: object = None) -> None:
        super().__init__()
        self.op_count = 0
        self.runs(json.dumps(plan or {}), release=release).store()
        self.note("broker-a", NodeStarted("broker", "10.0.0.1:10911", release))

    def half(self, outcome: Outcome | None = "commit", status: str = "SEND_OK") -> ATransaction:
        """A half message is stored; None: its producer dies before its transaction ends."""
        self.half_record()
        self.note("broker-a", HalfMessageStored(Q0, 0, 0, GROUP, KEY, -1))
        self.note(NODE, HalfMessageSent("orders", Q0, 0, KEY, 1, 1, status))
        if outcome is not None:
            self.note(NODE, LocalTransactionEnded("orders", Q0, 0, GROUP, KEY, outcome, ""))
        return self

    def half_record(self) -> ATransaction:
        """Its first record in the half topic."""
        return self.stored(0, HALF, KEY)

    def answers_late(self) -> ATransaction:
        """Its producer says commit, long after the half message."""
        return self.note(NODE, LocalTransactionEnded("orders", Q0, 0, GROUP, KEY, "commit", ""))

    def power_lost_before_copy(self) -> ATransaction:
        """The broker loses what it stored last, and starts again."""
        self.note("broker-a", PowerLost(RECORD_BYTES, RECORD_BYTES, 2 * RECORD_BYTES, ()))
        return self.note("broker-a", NodeStarted("broker", "10.0.0.1:10911", "4.9.7"))

    def judged_now(self) -> list[str]:
        """The objections, also of a journal that knows no half message."""
        return [violation.what for violation in self.ends().judged().violations]

    def commits(self, offset: int = 0, half: int = 0, *, by_check: bool = False) -> ATransaction:
        self.stored(offset, Q0, KEY)
        self.stored(self.op_count, OPS, "")
        self.op_count += 1
        return self.over("commit", half, offset, by_check=by_check)

    def over(
        self,
        outcome: Literal["commit", "rollback"],
        half: int = 0,
        stored: int = -1,
        *,
        by_check: bool = False,
    ) -> ATransaction:
        fact = TransactionEnded(Q0, half, outcome, GROUP, by_check, stored, KEY)
        self.note("broker-a", fact)
        return self

    def asked(self, times: int, client: str = "shop@1") -> ATransaction:
        """The broker stores the half message again, and asks *client*."""
        self.stored(times, HALF, KEY)
        fact = TransactionChecked(Q0, times - 1, times, times, client, GROUP, KEY)
        self.note("broker-a", fact)
        return self

    def immune(self, times: int) -> ATransaction:
        """The broker stores the half message again, and asks nobody."""
        self.stored(times, HALF, KEY)
        fact = ImmuneHalfStoredAgain(Q0, times - 1, times, times, 60_000, GROUP, KEY)
        self.note("broker-a", fact)
        return self

    def answers(self, outcome: Outcome) -> ATransaction:
        self.note(NODE, TransactionAnswered(GROUP, KEY, outcome, ""))
        return self

    def objected(self) -> list[str]:
        judged = self.ends().judged()
        return [
            *objections(judged, "transactions"),
            *objections(judged, "transaction_checks"),
        ]
