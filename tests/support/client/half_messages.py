"""A broker's check of a half message: the request's fields and its body."""

from __future__ import annotations

from typing import Any

from rocketmq_emulator.protocol.messages.properties import encode_properties
from rocketmq_emulator.protocol.messages.records import encode_record
from rocketmq_emulator.protocol.requests.groups import CheckTransactionStateRequest


def a_check(**fields: Any) -> CheckTransactionStateRequest:
    given: dict[str, Any] = {
        "tran_state_table_offset": 7,
        "commit_log_offset": 7_000,
        "msg_id": "K1",
        "transaction_id": "T1",
        "offset_msg_id": "F" * 32,
        "topic": "RMQ_SYS_TRANS_HALF_TOPIC",
        "bname": "asked",
    }
    return CheckTransactionStateRequest(**{**given, **fields})


def a_half_message(group: str = "pg", key: str = "K1") -> bytes:
    pairs = {"PGROUP": group, "UNIQ_KEY": key, "TRAN_MSG": "true"}
    return encode_record(
        b"t",
        b"paid",
        encode_properties({name: text for name, text in pairs.items() if text}, trailing=True),
        queue_id=2,
        queue_offset=7,
        position=7_000,
        born_ms=0,
        born_host=bytes(8),
        store_ms=0,
        store_host=bytes(8),
    )
