"""Time is advanced for messages that wait: delay levels, retries among them, and timers.

Answers ADVANCE_TIME, a call of ours.  No connection, member, lock or message grows older by
it, and records carry the wall time.
"""

from __future__ import annotations

from emulator.broker.broker import Broker
from emulator.broker.store.advancing import advance
from emulator.facts import TimeAdvanced
from emulator.net.own_calls import NOT_ALLOWED
from emulator.net.results import Call, Refusal, Reply, Result
from protocol.bodies.own import AdvancedTime, AdvanceTime, decode_own_body, encode_own_body
from protocol.codes import ResponseCode
from protocol.fields import BadFields, Header


class TimeAdvancer:
    """ADVANCE_TIME."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker

    def advance(self, call: Call[Header]) -> Result:
        """Move what waits, and deliver what is due by that."""
        broker = self._broker
        if not broker.config.reply_rules_allowed:
            raise Refusal(ResponseCode.NO_PERMISSION, NOT_ALLOWED)
        try:
            wanted = decode_own_body(call.body, AdvanceTime)
        except BadFields as error:
            raise Refusal(ResponseCode.INVALID_PARAMETER, str(error)) from error
        moved = advance(broker.delays, broker.timers, wanted.ms, call.now_ms)
        broker.puts.on_delayed()  # for what is left
        broker.note(TimeAdvanced(wanted.ms, moved.due_count, moved.waiting_count))
        left = moved.waiting_count - moved.due_count
        told = AdvancedTime(due_count=moved.due_count, waiting_count=left)
        return Reply(body=encode_own_body(told))
