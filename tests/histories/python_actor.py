"""This project's client as the programs of tests/sdk have the official ones: lines of JSON.

    python -m tests.histories.python_actor {trio|threads|asyncio}

It has the commands that histories need, and checks nothing.  Each command runs in a thread.
"""

from __future__ import annotations

import collections
import json
import sys
import threading
from collections.abc import Callable
from concurrent.futures import Future
from types import SimpleNamespace
from typing import Any

from rocketmq_emulator import ConsumeResult, LocalTransactionState, Message, MessageExt, by_sql
from tests.support.portal.client_kinds import FACES

CALL_MS_MAX = 10_000
RETRY_MS = 100  # a first pull is refused if it comes before the heartbeat

Line = dict[str, Any]


class Actor:
    """The clients of one process, by their names."""

    def __init__(self, face: Any, write: Callable[[Line], None]) -> None:
        self._face = face
        self._write = write
        self._opened: dict[str, tuple[Any, Any]] = {}  # name: the client, and what closes it
        self._conclusions: dict[str, Future[str]] = collections.defaultdict(Future)
        self._requests: dict[str, MessageExt] = {}
        self.deeds: dict[str, Callable[[Line], Any]] = {
            "start producer": self._start_producer,
            "stop producer": lambda line: self._stop(line["producer"]),
            "send": self._send,
            "send in transaction": self._send_in_transaction,
            "conclude": self._conclude,
            "request": self._request,
            "reply": self._reply,
            "start consumer": self._start_consumer,
            "stop consumer": lambda line: self._stop(line["consumer"]),
        }

    def answer(self, line: Line) -> None:
        try:
            result = {"result": self.deeds[line["do"]](line)}
        except Exception as problem:  # noqa: BLE001  # the test gets every error
            result = {"error": f"{type(problem).__name__}: {problem}"}
        self._write({"id": line["id"], **result})

    # Producers ------------------------------------------------------------------------

    def _start_producer(self, line: Line) -> None:
        settings = _settings(line, "producer")
        settings["send_timeout_ms"] = CALL_MS_MAX
        if "checks" in line:
            client = self._face.module.TransactionProducer(self._listener(line), **settings)
        else:
            client = self._face.module.Producer(**settings)
        self._open(line["producer"], client)

    def _listener(self, line: Line) -> SimpleNamespace:
        def execute(message: Message, state: str | None) -> LocalTransactionState:
            self._write({"event": "executing", "keys": message.keys})
            return LocalTransactionState[state or self._conclusions[message.keys or ""].result()]

        def check(message: MessageExt) -> LocalTransactionState:
            state = line["checks"].get(message.keys, "UNKNOW")
            found = {"keys": message.keys, "state": state, "producer": line["producer"]}
            self._write({"event": "checked", **found})
            return LocalTransactionState[state]

        return SimpleNamespace(  # the first may wait, so it stays a plain function, for threads
            execute_local_transaction=execute, check_local_transaction=self._face.function(check)
        )

    def _send(self, line: Line) -> list[Line]:
        client, _ = self._opened[line["producer"]]
        return [_described(client.send(_message(each))) for each in line["messages"]]

    def _send_in_transaction(self, line: Line) -> Line:
        client, _ = self._opened[line["producer"]]
        result = client.send_in_transaction(_message(line["message"]), line.get("state"))
        return _described(result) | {"state": result.local_transaction_state.name}

    def _conclude(self, line: Line) -> None:
        self._conclusions[line["keys"]].set_result(line["state"])

    def _request(self, line: Line) -> str:
        client, _ = self._opened[line["producer"]]
        reply = client.request(_message(line["message"]), timeout_ms=line["timeout_ms"])
        return str(reply.body.decode())

    def _reply(self, line: Line) -> str:
        client, _ = self._opened[line["producer"]]
        request = self._requests[line["keys"]]
        return str(client.reply_to(request, line["body"].encode()).status.value)

    # Consumers ------------------------------------------------------------------------

    def _start_consumer(self, line: Line) -> None:
        def listen(messages: list[MessageExt], context: Any) -> ConsumeResult:
            (message,) = messages
            level = line.get("refuse", {}).get(message.keys)
            refused = level is not None and message.reconsume_times == 0
            if message.properties.get("CORRELATION_ID"):
                self._requests[message.keys or ""] = message
            self._write(_consumed(message) | {"consumer": line["consumer"], "refused": refused})
            if not refused:
                return ConsumeResult.SUCCESS
            context.delay_level = level
            return ConsumeResult.RECONSUME_LATER

        wanted = by_sql(line["sql"]) if "sql" in line else line.get("tags", "*")
        settings = _settings(line, "consumer") | {"pull_error_delay_ms": RETRY_MS}
        client = self._face.module.PushConsumer(
            self._face.listener(listen),
            {line["topic"]: wanted},
            consume_from="CONSUME_FROM_FIRST_OFFSET",
            **settings,
        )
        self._open(line["consumer"], client)

    def _open(self, name: str, client: Any) -> None:
        closing = self._face.opened(client)
        self._opened[name] = closing.__enter__(), closing

    def _stop(self, name: str) -> None:
        _, closing = self._opened.pop(name)
        closing.__exit__(None, None, None)


def _settings(line: Line, role: str) -> dict[str, Any]:
    """Each client is an instance of its own, as those of the other programs."""
    names = ("namesrv", "group", "trace")
    settings: dict[str, Any] = {name: line[name] for name in names if name in line}
    if "heartbeat_ms" in line:
        settings["heartbeat_interval_ms"] = line["heartbeat_ms"]
    if "poll_ms" in line:
        settings["route_poll_interval_ms"] = line["poll_ms"]
    return {**settings, "instance_name": line[role]}


def _message(given: Line) -> Message:
    return Message(
        given["topic"],
        given["body"].encode(),
        keys=given["keys"],
        properties=given.get("properties", {}),
        delay_level=given.get("delay_level", 0),
    )


def _described(result: Any) -> Line:
    broker = result.queue.broker_name
    return {"status": result.status.value, "unique_id": result.msg_id, "broker": broker}


def _consumed(message: MessageExt) -> Line:
    return {
        "event": "consumed",
        "keys": message.keys,
        "topic": message.topic,
        "reconsume_times": message.reconsume_times,
    }


def main() -> None:
    printing = threading.Lock()

    def write(line: Line) -> None:
        with printing:
            sys.stdout.write(json.dumps(line) + "\n")
            sys.stdout.flush()

    with FACES[sys.argv[1]]() as face:
        actor = Actor(face, write)
        for text in sys.stdin:
            threading.Thread(target=actor.answer, args=(json.loads(text),), daemon=True).start()


if __name__ == "__main__":
    main()
