"""The client for threads: Ctrl-C, forks, the end of the process, callbacks, loops."""

from __future__ import annotations

import copy
import logging
import os
import pickle
import signal
import subprocess
import sys
import threading

import pytest

from rocketmq_emulator import Cluster, aio
from rocketmq_emulator.portal.portal import Inbox
from rocketmq_emulator.sync import (
    BadArgument,
    ClientProcess,
    GroupTaken,
    Message,
    MessageIllegal,
    Misuse,
    NotRunning,
    Producer,
    PushConsumer,
)
from tests.support.paths import ROOT

FROM_FIRST = {"consume_from": "CONSUME_FROM_FIRST_OFFSET", "pull_error_delay_ms": 20}
WAIT_S_MAX = 20.0


@pytest.fixture(scope="module")
def cluster():
    with Cluster(brokers=1) as cluster:
        yield cluster


@pytest.fixture
def producer(cluster):
    with Producer(namesrv=cluster.namesrv, group="shop") as producer:
        yield producer


def a_consumer(cluster, topic, **settings) -> PushConsumer:
    settings = {"subscriptions": {topic: "*"}, "group": f"group-{topic}", **settings}
    return PushConsumer(namesrv=cluster.namesrv, **FROM_FIRST, **settings)


def send(producer, topic, count) -> None:
    for number in range(count):
        producer.send(Message(topic, b"%d" % number))


# Start and close --------------------------------------------------------------------------


def test_start_and_close_do_what_a_with_does(cluster) -> None:
    producer = Producer(namesrv=cluster.namesrv, group="started")
    with pytest.raises(NotRunning, match="inside its with block, or between start"):
        producer.send(Message("started", b"x"))
    for _ in range(2):
        assert producer.start() is producer
        assert producer.send(Message("started", b"x")).is_ok
        with pytest.raises(Misuse, match="started already"):
            producer.start()
        producer.close()
        producer.close()
    with pytest.raises(NotRunning):
        producer.send(Message("started", b"x"))


def test_a_start_that_fails_can_be_made_again(cluster) -> None:
    with ClientProcess() as process:
        shared = {"namesrv": cluster.namesrv, "process": process, "instance_name": "one"}
        second = Producer(group="taken", **shared)
        with Producer(group="taken", **shared), pytest.raises(GroupTaken):
            second.start()
        with second:
            assert second.send(Message("taken", b"x")).is_ok


@pytest.mark.parametrize("duplicate", [pickle.dumps, copy.copy, copy.deepcopy])
def test_a_client_is_neither_pickled_nor_copied_open_or_not(producer, duplicate) -> None:
    for client in (producer, Producer(group="g")):
        with pytest.raises(TypeError, match="make one in the process that uses it"):
            duplicate(client)


def test_a_process_of_another_face_is_refused() -> None:
    wanted = r"process is a ClientProcess of rocketmq_emulator\.sync"
    with pytest.raises(BadArgument, match=wanted):
        Producer(group="g", process=aio.ClientProcess())


def test_many_threads_share_a_producer(producer) -> None:
    results = []

    def work() -> None:
        results.extend(producer.send(Message("threads", b"x")) for _ in range(5))

    threads = [threading.Thread(target=work) for _ in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len({(r.queue, r.queue_offset) for r in results}) == 80


# Callbacks --------------------------------------------------------------------------------


def test_callbacks_may_use_the_client_and_what_they_raise_is_logged(producer, caplog) -> None:
    done = threading.Event()
    seen = []

    def first(result) -> None:
        seen.append(producer.send(Message("callbacks", b"from a callback")))
        raise ValueError("a bad callback")

    def second(result) -> None:
        seen.append(result)
        done.set()

    with caplog.at_level(logging.ERROR, "rocketmq_emulator"):
        producer.start_send(Message("callbacks", b"x"), first).wait_sent()
        producer.start_send(Message("callbacks", b"y"), second)
        assert done.wait(WAIT_S_MAX)
    assert [result.is_ok for result in seen] == [True, True]
    assert "a bad callback" in caplog.text


def test_a_send_in_the_background_is_refused_at_the_call(producer) -> None:
    with pytest.raises(BadArgument, match="callback"):
        producer.start_send(Message("orders", b"x"), "print")
    with pytest.raises(MessageIllegal):
        producer.start_send(Message("no topic!", b"x"))


def test_waiting_for_a_send_has_a_timeout() -> None:
    with Cluster(brokers=1) as still, Producer(namesrv=still.namesrv, group="late") as producer:
        producer.send(Message("late", b"x"))
        still.pause("broker-a")
        sending = producer.start_send(Message("late", b"y"))
        with pytest.raises(TimeoutError, match="still under way"):
            sending.wait_sent(timeout_s=0.0)
        for wrong in ("3", -1, float("nan")):
            with pytest.raises(BadArgument, match="timeout_s is "):
                sending.wait_sent(wrong)
        still.resume("broker-a")
        assert sending.wait_sent().is_ok


def test_a_very_long_timeout_of_a_send_is_one(producer) -> None:
    assert producer.start_send(Message("long", b"x")).wait_sent(1e30).msg_id


def test_a_call_that_waits_is_refused_in_the_thread_of_the_clients(producer) -> None:
    errors = []

    def selector(queues, message, argument):
        try:
            producer.publish_queues("selected")
        except Misuse as error:
            errors.append(str(error))
        return queues[0]

    assert producer.send_to_selected(Message("selected", b"x"), selector).is_ok
    assert "it would wait for itself" in errors[0]


# Consumers --------------------------------------------------------------------------------


def test_an_async_listener_is_refused_by_name() -> None:
    async def on_orders(messages) -> None: ...

    with pytest.raises(Misuse, match=r"rocketmq_emulator\.aio"):
        PushConsumer(on_orders, {"orders": "*"}, group="g")


def test_what_is_called_on_changed_queues_is_checked_at_once() -> None:
    with pytest.raises(BadArgument, match="on_queues"):
        PushConsumer(print, {"orders": "*"}, group="g", on_queues=5)


def test_changes_of_queues_are_told_in_another_thread(cluster, producer) -> None:
    send(producer, "told", 1)
    told, done = [], threading.Event()

    def on_queues(topic, queues, mine) -> None:
        told.append((topic, len(queues), len(mine), consumer.queues != []))
        done.set()

    with a_consumer(cluster, "told", on_queues=on_queues) as consumer:
        assert done.wait(WAIT_S_MAX)
    assert ("told", 4, 4, True) in told or told[0][0].startswith("%RETRY%")


def test_a_loop_over_messages_acknowledges_and_fails_as_the_trio_loop(cluster, producer) -> None:
    send(producer, "looped", 6)
    seen = []
    with a_consumer(cluster, "looped") as consumer:
        for message in consumer:
            seen.append(message.body)
            if len(seen) == 2:
                break
        with pytest.raises(ValueError, match="bad order"):
            seen.append(refusing_loop(consumer))
    with a_consumer(cluster, "looped") as consumer:
        again = [message.body for message in consumer.messages(count=3)]
        later = [message.body for message in consumer.messages(timeout_s=0.1)]
    all_sent = {b"%d" % number for number in range(6)}
    assert len(all_sent - {*seen, *again}) == 1, "the refused message comes after ten seconds"
    assert later == []


def refusing_loop(consumer) -> None:
    for message in consumer:
        raise ValueError(f"bad order {message.body!r}")


def test_a_loop_without_messages_ends_when_its_time_is_over(cluster) -> None:
    with a_consumer(cluster, "silence") as consumer:
        assert list(consumer.messages(timeout_s=0.05)) == []


def test_closing_in_another_thread_ends_a_loop(cluster, producer) -> None:
    send(producer, "closing", 1)
    seen = []
    with a_consumer(cluster, "closing") as consumer:
        for message in consumer:
            seen.append(message.body)
            threading.Thread(target=consumer.close).start()
    assert seen == [b"0"]


def test_waiting_for_the_end_of_a_consumer(cluster) -> None:
    with a_consumer(cluster, "waited") as consumer:
        threading.Thread(target=consumer.close).start()
        consumer.wait_closed()
        consumer.wait_closed()


def test_a_listener_that_exits_ends_its_consumer_and_no_other_client(
    cluster, producer, caplog
) -> None:
    send(producer, "exits", 1)
    consumer = a_consumer(cluster, "exits", listener=lambda messages: sys.exit(3))
    with pytest.raises(SystemExit), consumer:
        consumer.wait_closed()
    assert producer.send(Message("exits", b"still there")).is_ok


# Processes --------------------------------------------------------------------------------

FORKING = """
import os, sys
from rocketmq_emulator.sync import Message, NotRunning, Producer

with Producer(namesrv=sys.argv[1], group="shop") as producer:
    producer.send(Message("forks", b"parent"))
    child = os.fork()
    if child == 0:
        try:
            producer.send(Message("forks", b"child"))
        except NotRunning as error:
            print(error, flush=True)
        with Producer(namesrv=sys.argv[1], group="shop") as own:
            print(own.send(Message("forks", b"child")).status.value, flush=True)
    else:
        print("child", os.waitpid(child, 0)[1], producer.send(Message("forks", b"parent")).is_ok)
"""

EXITING = """
import sys, threading
from rocketmq_emulator.sync import Message, Producer, PushConsumer

producer = Producer(namesrv=sys.argv[1], group="shop").start()
producer.send(Message("exits", b"x"))
consumer = PushConsumer(print, {"exits": "*"}, namesrv=sys.argv[1], group="left").start()
loop = PushConsumer(subscriptions={"none": "*"}, namesrv=sys.argv[1], group="loop").start()
threading.Thread(target=list, args=[loop.messages()], daemon=True).start()
print("over", flush=True)
"""

# SIGALRM raises KeyboardInterrupt, as Ctrl-C does, at a random moment and then repeatedly: one
# that is raised in a destructor is lost.
INTERRUPTED_ANYWHERE = """
import random, signal, sys
from rocketmq_emulator.sync import PushConsumer

signal.signal(signal.SIGALRM, signal.default_int_handler)
sys.unraisablehook = lambda unraisable: None
chance = random.Random(7)
with PushConsumer(subscriptions={"none": "*"}, namesrv=sys.argv[1], group="anywhere") as consumer:
    for _ in range(600):
        try:
            signal.setitimer(signal.ITIMER_REAL, chance.uniform(0.00001, 0.0006), 0.05)
            for message in consumer:
                pass
        except KeyboardInterrupt:
            signal.setitimer(signal.ITIMER_REAL, 0)
        assert list(consumer.messages(timeout_s=0)) == []
print("answers")
"""

WAITING = """
import sys
from rocketmq_emulator.sync import PushConsumer

with PushConsumer(subscriptions={"none": "*"}, namesrv=sys.argv[1], group="waits") as consumer:
    try:
        print("waiting", flush=True)
        for message in consumer:
            pass
    except KeyboardInterrupt:
        print("interrupted", flush=True)
    print(list(consumer.messages(timeout_s=0)), flush=True)
"""


def run(program, cluster, *, interrupt_after="") -> tuple[int, list[str], str]:
    """The program's exit code, its lines, and its standard error."""
    with subprocess.Popen(
        [sys.executable, "-W", "error", "-c", program, cluster.namesrv],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        first = ""
        if interrupt_after:
            first = process.stdout.readline()
            assert first.strip() == interrupt_after
            process.send_signal(signal.SIGINT)
        out, errors = process.communicate(timeout=WAIT_S_MAX)
        return process.returncode, (first + out).splitlines(), errors


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_the_child_of_a_fork_says_so_and_makes_clients_of_its_own(cluster) -> None:
    code, lines, errors = run(FORKING, cluster)
    assert (code, errors) == (0, "")
    assert "before a fork" in lines[0]
    assert lines[1:] == ["SEND_OK", "child 0 True"]


def test_a_process_that_leaves_clients_open_ends_without_a_word(cluster) -> None:
    code, lines, errors = run(EXITING, cluster)
    assert (code, errors) == (0, "")
    assert any("over" in line for line in lines), lines  # the listener prints, too


def test_ctrl_c_interrupts_a_call_and_the_client_goes_on(cluster) -> None:
    code, lines, errors = run(WAITING, cluster, interrupt_after="waiting")
    assert (code, errors) == (0, "")
    assert lines == ["waiting", "interrupted", "[]"]


def test_a_client_interrupted_at_any_moment_answers_afterwards(cluster) -> None:
    code, lines, errors = run(INTERRUPTED_ANYWHERE, cluster)
    assert (code, lines, errors) == (0, ["answers"], "")


def test_work_is_seen_though_ctrl_c_came_before_its_wake_up() -> None:
    woken, seen = [], []

    def wake(work) -> None:
        woken.append(work)
        if len(woken) == 1:
            raise KeyboardInterrupt

    inbox = Inbox(wake)
    with pytest.raises(KeyboardInterrupt):
        inbox.soon(seen.append, 1)
    assert len(woken) == 2
    inbox.soon(seen.append, 2)
    assert len(woken) == 3
    woken[-1]()
    assert seen == [1, 2]
