"""Runs features of the Python client ``rocketmq``, and prints one line of JSON for each.

    python main.py NAMESRV PREFIX [FEATURE…]

The client is C++ inside, and may end its process: so each feature has a process of its own.
"""

from __future__ import annotations

import json
import os
import queue
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import rocketmq.client as official  # type: ignore[import-not-found]

AT_A_TIME = 4
FEATURE_S_MAX = 60
WAIT_S_MAX = 40
SHOWN = (
    "body",
    "tags",
    "keys",
    "queue_id",
    "queue_offset",
    "reconsume_times",
    "born_timestamp",
    "store_timestamp",
    "store_size",
)


class Lab:
    """What one feature works with; its consumers stay until the process ends."""

    def __init__(self, namesrv: str, name: str) -> None:
        self.namesrv = namesrv
        self.topic = self.group = name
        self.clients: list[Any] = []

    def producer(self) -> Any:
        client = official.Producer(f"{self.group}-producer", timeout=10_000)
        client.set_namesrv_addr(self.namesrv)
        client.start()
        self.clients.append(client)
        return client

    def message(self, body: str, tag: str = "", keys: str = "", topic: str = "") -> Any:
        message = official.Message(topic or self.topic)
        message.set_body(body)
        if tag:
            message.set_tags(tag)
        if keys:
            message.set_keys(keys)
        return message

    def inbox(self, expression: str = "*", fail_first: bool = False, **options: Any) -> Inbox:
        topic = options.pop("topic", self.topic)
        client = official.PushConsumer(self.group, **options)
        client.set_namesrv_addr(self.namesrv)
        client.set_instance_name(f"c{len(self.clients)}")
        inbox = Inbox()

        def listener(message: Any) -> None:
            inbox.put(message)
            if fail_first and message.reconsume_times == 0:
                raise RuntimeError("the first delivery fails")

        client.subscribe(topic, listener, expression)
        client.start()
        self.clients.append(client)
        return inbox


class Inbox:
    """Messages that a consumer got: a dict each, because the client frees its own."""

    def __init__(self) -> None:
        self._found: queue.Queue[dict[str, Any]] = queue.Queue()

    def put(self, message: Any) -> None:
        shown = {name: getattr(message, name) for name in SHOWN}
        shown["colour"] = message.get_property("colour")
        self._found.put(shown)

    def take(self, count: int) -> list[dict[str, Any]]:
        end = time.monotonic() + WAIT_S_MAX
        found: list[dict[str, Any]] = []
        while len(found) < count:
            try:
                found.append(self._found.get(timeout=max(0.01, end - time.monotonic())))
            except queue.Empty:
                text = f"{len(found)} of {count} messages came in {WAIT_S_MAX} s"
                raise AssertionError(text) from None
        return found

    def take_only(self, body: str) -> dict[str, Any]:
        (found,) = self.take(1)
        assert found["body"] == body.encode(), f"the next message was {found['body']!r}"
        return found


def sync(lab: Lab) -> None:
    result = lab.producer().send_sync(lab.message("sync"))
    assert result.offset == lab.inbox().take_only("sync")["queue_offset"]


def asynchronous(lab: Lab) -> None:
    done: queue.Queue[object] = queue.Queue()
    lab.producer().send_async(lab.message("async"), done.put, done.put)
    result = done.get(timeout=WAIT_S_MAX)
    assert not isinstance(result, Exception), result
    lab.inbox().take_only("async")


def one_way(lab: Lab) -> None:
    lab.producer().send_oneway(lab.message("one way"))
    lab.inbox().take_only("one way")


def batch(lab: Lab) -> None:
    lab.producer().send_batch([lab.message(body) for body in ("one", "two", "three")])
    lab.inbox().take(3)


def by_selector(lab: Lab) -> None:
    producer = lab.producer()
    for number in range(3):
        producer.send_orderly(lab.message(f"order {number}"), 7)
    assert len({message["queue_id"] for message in lab.inbox().take(3)}) == 1


def properties(lab: Lab) -> None:
    message = lab.message("with properties", "paid", "key-1 key-2")
    message.set_property("colour", "blau grün")
    lab.producer().send_sync(message)
    (found,) = lab.inbox().take(1)
    shown = found["tags"], found["keys"].strip(), found["colour"]
    assert shown == (b"paid", b"key-1 key-2", "blau grün".encode()), shown


def compressed(lab: Lab) -> None:
    body = "x" * 20_000
    lab.producer().send_sync(lab.message(body))
    assert lab.inbox().take_only(body)["store_size"] < 2_000, "not compressed"


def creates_topic(lab: Lab) -> None:
    created = f"{lab.topic}-created"
    lab.producer().send_sync(lab.message("new", topic=created))
    lab.inbox(topic=created).take_only("new")


def delay_level(lab: Lab) -> None:
    message = lab.message("one second later")
    message.set_delay_time_level(1)
    lab.producer().send_sync(message)
    found = lab.inbox().take_only("one second later")
    assert found["store_timestamp"] - found["born_timestamp"] >= 900, "delivered at once"


def concurrently(lab: Lab) -> None:
    send(lab, 40)
    lab.inbox().take(40)


def orderly(lab: Lab) -> None:
    producer = lab.producer()
    for number in range(8):
        producer.send_orderly(lab.message(str(number)), 1)
    found = lab.inbox(orderly=True).take(8)
    assert [message["body"] for message in found] == [str(n).encode() for n in range(8)]


def broadcasting(lab: Lab) -> None:
    inboxes = [lab.inbox(message_model=official.MessageModel.BROADCASTING) for _ in range(2)]
    time.sleep(2)  # it has no setting for the first offset: consumers start at the end
    send(lab, 8)
    for inbox in inboxes:
        inbox.take(8)


def tags(lab: Lab) -> None:
    producer = lab.producer()
    for tag in ("open", "paid", "lost", "sent"):
        producer.send_sync(lab.message(tag, tag))
    found = lab.inbox("paid || sent").take(2)
    assert {message["tags"] for message in found} == {b"paid", b"sent"}


def retry(lab: Lab) -> None:
    inbox = lab.inbox(fail_first=True)
    send(lab, 1)
    assert [message["reconsume_times"] for message in inbox.take(2)] == [0, 1]


def pull(lab: Lab) -> None:
    send(lab, 4)
    client = official.PullConsumer(lab.group)
    client.set_namesrv_addr(lab.namesrv)
    client.start()
    lab.clients.append(client)
    found: list[str] = []
    end = time.monotonic() + WAIT_S_MAX
    while len(found) < 4 and time.monotonic() < end:
        found += [str(message) for message in client.pull(lab.topic)]
    assert sorted(found) == ["0", "1", "2", "3"], found


def send(lab: Lab, count: int) -> None:
    producer = lab.producer()
    for number in range(count):
        producer.send_sync(lab.message(str(number)))


FEATURES = {
    "send-sync": sync,
    "send-async": asynchronous,
    "send-oneway": one_way,
    "send-batch": batch,
    "send-by-selector": by_selector,
    "send-properties": properties,
    "send-compressed": compressed,
    "send-creates-topic": creates_topic,
    "send-delay-level": delay_level,
    "consume-concurrently": concurrently,
    "consume-orderly": orderly,
    "consume-broadcasting": broadcasting,
    "consume-tags": tags,
    "consume-retry": retry,
    "pull": pull,
}


def main() -> None:
    if sys.argv[1] == "--one":
        one(*sys.argv[2:])
        return
    namesrv, prefix, *wanted = sys.argv[1:]
    with ThreadPoolExecutor(AT_A_TIME) as pool:
        names = [name for name in FEATURES if name in (wanted or FEATURES)]
        for line in pool.map(lambda name: outcome(name, namesrv, prefix), names):
            write(json.dumps(line))


def outcome(feature: str, namesrv: str, prefix: str) -> dict[str, str]:
    """Run *feature* in another process, which prints its reason, or "works"."""
    command = [sys.executable, __file__, "--one", feature, namesrv, f"{prefix}-{feature}"]
    try:
        run = subprocess.run(
            command,
            capture_output=True,
            timeout=FEATURE_S_MAX,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return {
            "feature": feature,
            "outcome": "fails",
            "why": f"not finished in {FEATURE_S_MAX} s",
        }
    lines = run.stdout.decode(errors="replace").splitlines()
    why = next((text for text in lines if text.startswith("outcome: ")), None)
    if why is None:
        why = f"outcome: the process ended with {run.returncode}"
    why = why.removeprefix("outcome: ")
    works = why == "works"
    return {
        "feature": feature,
        "outcome": "works" if works else "fails",
        "why": "" if works else why,
    }


def one(feature: str, namesrv: str, name: str) -> None:
    try:
        FEATURES[feature](Lab(namesrv, name))
        text = "works"
    except Exception as problem:  # noqa: BLE001  # the reason is the result
        text = f"{type(problem).__name__}: {' '.join(str(problem).split())}"
    write(f"outcome: {text}")
    os._exit(0)  # without the client's destructors, which may wait for long


def write(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
