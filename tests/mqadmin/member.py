"""A client without an SDK that sends fixed answers; it has one producer and one consumer group.

Answers of real clients differ from run to run; the answers of this one do not.
"""

from __future__ import annotations

import socket
import threading
from typing import Any

import msgspec

from rocketmq_emulator.protocol.command import (
    RESPONSE,
    RemotingCommand,
    decode_command,
    encode_command,
)
from rocketmq_emulator.protocol.framing import FrameDecoder

HEART_BEAT = 34
GET_CONSUMER_RUNNING_INFO, CONSUME_MESSAGE_DIRECTLY = 307, 309
ANSWER_S_MAX = 10.0
CLIENT_ID = "10.0.0.7@member"
BEAT: dict[str, Any] = {
    "clientID": CLIENT_ID,
    "producerDataSet": [{"groupName": "cashiers"}],
    "consumerDataSet": [
        {
            "groupName": "billing",
            "consumeType": "CONSUME_PASSIVELY",
            "messageModel": "CLUSTERING",
            "consumeFromWhere": "CONSUME_FROM_FIRST_OFFSET",
            "unitMode": False,
            "subscriptionDataSet": [
                {
                    "classFilterMode": False,
                    "topic": "Orders",
                    "subString": "*",
                    "expressionType": "TAG",
                    "subVersion": 1,
                    "tagsSet": [],
                    "codeSet": [],
                }
            ],
        }
    ],
}
PROPERTIES = {
    "PROP_NAMESERVER_ADDR": "namesrv;",
    "PROP_THREADPOOL_CORE_SIZE": "20",
    "PROP_CONSUMEORDERLY": "false",
    "PROP_CONSUME_TYPE": "CONSUME_PASSIVELY",
    "PROP_CLIENT_VERSION": "V4_9_7",
    "PROP_CONSUMER_START_TIMESTAMP": "1",
}
ANSWERS = {
    GET_CONSUMER_RUNNING_INFO: msgspec.json.encode(
        {
            "jstack": None,
            "mqTable": {},
            "properties": PROPERTIES,
            "statusTable": {},
            "subscriptionSet": BEAT["consumerDataSet"][0]["subscriptionDataSet"],
        }
    ),
    CONSUME_MESSAGE_DIRECTLY: msgspec.json.encode(
        {"autoCommit": True, "consumeResult": "CR_SUCCESS", "order": False, "spentTimeMills": 3}
    ),
}


class Member:
    """Connects to *broker*, sends a heartbeat, and answers requests until it is closed."""

    def __init__(self, broker: str) -> None:
        host, port = broker.rsplit(":", 1)
        self._stream = socket.create_connection((host, int(port)), ANSWER_S_MAX)
        self._stream.settimeout(None)
        self._known = threading.Event()
        self._reader = threading.Thread(target=self._answer, daemon=True)
        self._reader.start()
        self._say(RemotingCommand(code=HEART_BEAT, version=409, body=msgspec.json.encode(BEAT)))
        assert self._known.wait(ANSWER_S_MAX), "the heartbeat was not answered"

    def close(self) -> None:
        """Close the connection without UNREGISTER_CLIENT."""
        self._stream.shutdown(socket.SHUT_RDWR)
        self._stream.close()
        self._reader.join(ANSWER_S_MAX)

    def _say(self, command: RemotingCommand) -> None:
        self._stream.sendall(encode_command(command))

    def _answer(self) -> None:
        decoder = FrameDecoder()
        while data := self._received():
            decoder.feed(data)
            while (frame := decoder.next_frame()) is not None:
                command = decode_command(frame)
                if command.is_response:
                    self._known.set()
                elif command.code in ANSWERS:
                    body = ANSWERS[command.code]
                    self._say(RemotingCommand(flag=RESPONSE, opaque=command.opaque, body=body))

    def _received(self) -> bytes:
        try:
            return self._stream.recv(1 << 16)
        except OSError:
            return b""
