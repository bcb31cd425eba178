"""The histories of failed tests: what a maintainer would write of each, and the page of one.

One pytest runs all of them; times are replaced, because they differ from run to run.
"""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

import pytest

from rocketmq_emulator.facts import (
    Fact,
    HalfMessageStored,
    MessageStored,
    NodeKilled,
    Queue,
    TransactionChecked,
    TransactionEnded,
)
from rocketmq_emulator.facts.journal import Entry
from rocketmq_emulator.testing.failure_history import FailedTest, history_of
from rocketmq_emulator.testing.message_fates import MessageFates
from tests.emulator.testing.test_pytest_plugin import properties_of, run_pytest
from tests.scenarios.report.test_page import data_of
from tests.support.headless import Browser

FAILING = """
import threading
import time

import pytest
import trio
from rocketmq_emulator import Message as TrioMessage
from rocketmq_emulator import Producer as TrioProducer
from rocketmq_emulator import PushConsumer as TrioConsumer
from rocketmq_emulator.facts import BrokerUnregistered
from rocketmq_emulator.sync import Message, Producer, PushConsumer

FIRST = {"consume_from": "CONSUME_FROM_FIRST_OFFSET"}
ONE_QUEUE = pytest.mark.rocketmq(
    brokers=1, topics={"orders": 1}, settings={"autoCreateTopicEnable": False}
)


@ONE_QUEUE
def test_a_tag_is_written_differently(rocketmq):
    billed, came, settings = [], threading.Event(), rocketmq.client_settings(quick=True)

    def bill(messages):
        billed.extend(messages)
        came.set()

    with PushConsumer(bill, {"orders": "paid"}, group="billing", **FIRST, **settings):
        with Producer(group="shop", **settings) as producer:
            for tag in ("Paid", "Paid", "paid"):
                producer.send(Message("orders", b"two cups", tags=tag))
        came.wait(20)
        time.sleep(0.05)  # until the fact of its consumption is there
        assert len(billed) == 3


@ONE_QUEUE
def test_a_listener_raises_until_the_message_is_a_dead_letter(rocketmq):
    def bill(messages):
        raise ValueError("no price for two cups")

    settings = rocketmq.client_settings(quick=True)
    with (
        PushConsumer(
            bill, {"orders": "*"}, group="billing", reconsume_times_max=1, **FIRST, **settings
        ),
        Producer(group="shop", **settings) as producer,
    ):
        producer.send(Message("orders", b"two cups"))
        for _ in range(400):
            rocketmq.advance("10m")
            if rocketmq.sent_to("%DLQ%billing"):
                break
            time.sleep(0.05)
        assert not rocketmq.sent_to("%DLQ%billing"), "a bill is missing"


@ONE_QUEUE
def test_its_broker_was_killed(rocketmq):
    rocketmq.kill("broker-a")
    while not rocketmq.facts(BrokerUnregistered):
        time.sleep(0.01)
    with Producer(group="shop", **rocketmq.client_settings(quick=True)) as producer:
        producer.send(Message("orders", b"two cups"))


@ONE_QUEUE
def test_its_broker_was_paused(rocketmq):
    rocketmq.pause("broker-a")
    rocketmq.resume("broker-a")
    rocketmq.pause("broker-a")
    raise TimeoutError("no answer")


@pytest.mark.rocketmq(brokers=1, topics={"orders": 1})
def test_its_topic_is_misspelt(rocketmq):
    rocketmq.create_topic("ordres", queues=1)
    settings = rocketmq.client_settings(quick=True)
    with (
        Producer(group="shop", **settings) as producer,
        PushConsumer(print, {"orders": "*"}, group="billing", **FIRST, **settings),
    ):
        producer.send(Message("ordres", b"two cups"))
        rocketmq.wait_until_consumed("billing", topics=["orders"])
        assert rocketmq.consumed_by("billing")


@ONE_QUEUE
def test_its_group_has_no_member(rocketmq):
    with Producer(group="shop", **rocketmq.client_settings()) as producer:
        producer.send(Message("orders", b"two cups", tags="paid"))
        rocketmq.wait_until_consumed("billing", timeout=0.1, topics=["orders"])


@pytest.mark.rocketmq(brokers=1, topics={"orders": 2})
async def test_a_queue_is_owned_by_a_crashed_member(virtual_cluster):
    namesrv, billed = virtual_cluster.namesrv, []

    async def bill(messages):
        billed.extend(messages)

    async def consume(process):
        async with TrioConsumer(
            bill, {"orders": "*"}, process=process, namesrv=namesrv, group="billing", **FIRST
        ):
            await trio.sleep_forever()

    async def sell(process):
        async with TrioProducer(process=process, namesrv=namesrv, group="shop") as producer:
            for _ in range(4):
                await producer.send(TrioMessage("orders", b"two cups"))

    virtual_cluster.start_client("billing-1", consume)
    await trio.sleep(30)
    virtual_cluster.start_client("billing-2", consume)
    await trio.sleep(30)
    virtual_cluster.power_off("billing-2")
    await virtual_cluster.start_client("shop", sell).wait_ended()
    await trio.sleep(10)
    assert len(billed) == 4


@ONE_QUEUE
async def test_a_verb_is_not_awaited(virtual_cluster):
    await trio.sleep(1)
    virtual_cluster.kill("broker-a")
    virtual_cluster.start("broker-a")


@ONE_QUEUE
def test_its_message_is_delayed(rocketmq):
    with Producer(group="shop", **rocketmq.client_settings(quick=True)) as producer:
        producer.send(Message("orders", b"pay for two cups", delay_level=5))
    assert rocketmq.sent_to("orders")


@ONE_QUEUE
def test_rocketmq_has_nothing_to_do_with_it(rocketmq):
    assert 1 + 1 == 3


@ONE_QUEUE
def test_a_broker_is_busy(rocketmq):
    rocketmq.fail_next("send", 3)
    with Producer(group="shop", **rocketmq.client_settings()) as producer:
        producer.send(Message("orders", b"two cups"))


@ONE_QUEUE
def test_a_listener_has_not_returned(rocketmq):
    given, goes_on = threading.Event(), threading.Event()

    def bill(messages):
        given.set()
        goes_on.wait(20)

    settings = rocketmq.client_settings(quick=True)
    with PushConsumer(bill, {"orders": "*"}, group="billing", **FIRST, **settings):
        with Producer(group="shop", **settings) as producer:
            producer.send(Message("orders", b"two cups"))
        given.wait(20)
        try:
            assert rocketmq.consumed_by("billing")
        finally:
            goes_on.set()
"""

HISTORIES = {
    "test_a_tag_is_written_differently": """
        billing-1 joined billing, reads orders (tag paid)
        billing-1 owns 1 queue of orders: broker-a/0
        3 messages sent to orders, stored: broker-a/0, tag Paid, paid
        billing-1 consumed 1 message of orders
        the test failed: AssertionError: assert 1 == 3
        orders → billing: 2 of 3 filtered out: tag Paid, and billing reads only paid
        orders → billing: 1 of 3 consumed
    """,
    "test_a_listener_raises_until_the_message_is_a_dead_letter": """
        billing-1 joined billing, reads orders
        billing-1 owns 1 queue of orders: broker-a/0
        1 message sent to orders, stored: broker-a/0
        time was advanced by 10 min: 1 message fell due
        the listener of billing-1 raised ValueError: no price for two cups, 2 times
        1 message sent back by billing: retry 1
        1 dead letter in %DLQ%billing
        the test failed: AssertionError: a bill is missing
        orders → billing: 1 dead letter: after 2 attempts: ValueError: no price for two cups
    """,
    "test_its_broker_was_killed": """
        broker-a was killed
        1 send to orders failed: NoRoute: no queue of orders can be written, nothing was sent: no…
        the test failed: NoRoute: no queue of orders can be written, nothing was sent: no broker …
        broker-a was killed
    """,
    "test_its_broker_was_paused": """
        broker-a was paused
        broker-a was resumed
        broker-a was paused
        the test failed: TimeoutError: no answer
        broker-a is paused
    """,
    "test_its_topic_is_misspelt": """
        billing-1 joined billing, reads orders
        billing-1 owns 1 queue of orders: broker-a/0
        1 message sent to ordres, stored: broker-a/0
        the test failed: AssertionError: assert []
        likely mistake: 1 message sent to ordres, and billing reads orders
        ordres: 1 message, and no group reads it
        billing: billing-1; no message to consume
    """,
    "test_its_group_has_no_member": """
        1 message sent to orders, stored: broker-a/0, tag paid
        the test failed: NotConsumed: billing has not consumed all messages after 0.1 s: no membe…
        orders → billing: 1 waiting: billing has no member
    """,
    "test_a_queue_is_owned_by_a_crashed_member": """
        billing-1 joined billing, reads orders
        billing-1 owns 2 queues of orders: broker-a/0-1
        billing-2 joined billing, reads orders
        billing-1 released 1 queue of orders: broker-a/1 (not mine)
        billing-2 owns 1 queue of orders: broker-a/1
        billing-2 lost power
        4 messages sent to orders, stored: broker-a/0-1
        billing-1 consumed 2 messages of orders
        the test failed: AssertionError: assert 2 == 4
        billing-2 has lost power
        orders → billing: 2 of 4 waiting: its owner billing-2 has lost power
        orders → billing: 2 of 4 consumed
    """,
    "test_a_verb_is_not_awaited": """
        broker-a was killed
        the test failed: NotAwaited: start was called without await at test_failing.py:…: nothi…
        broker-a was killed
    """,
    "test_its_message_is_delayed": """
        1 message sent to orders, delayed (delay level 5): until due, or until time is advanced
        the test failed: AssertionError: assert []
    """,
    "test_rocketmq_has_nothing_to_do_with_it": """
        nothing: no message, no member, no fault
        the test failed: assert (1 + 1) == 3
    """,
    "test_a_broker_is_busy": """
        a reply rule of broker-a changed 1 SEND_MESSAGE_V2: error
        1 send to orders failed: BrokerRefused: 1 attempt in … at broker-a: SYSTEM_BUSY
        the test failed: BrokerRefused: orders: 1 attempt in … at broker-a: SYSTEM_BUSY
    """,
    "test_a_listener_has_not_returned": """
        billing-1 joined billing, reads orders
        billing-1 owns 1 queue of orders: broker-a/0
        1 message sent to orders, stored: broker-a/0
        the test failed: AssertionError: assert []
        orders → billing: 1 not finished: the listener of billing-1 has it for …
    """,
}


class Failures(NamedTuple):
    """What pytest printed, and the files of each test."""

    printed: str
    files: dict[str, dict[str, str]]  # by test: its properties in JUnit XML


@pytest.fixture(scope="module")
def failures(tmp_path_factory: pytest.TempPathFactory) -> Failures:
    folder = tmp_path_factory.mktemp("failing")
    options = ("-ra", "--junitxml", "out.xml", "--rocketmq-journals", "left")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("COLUMNS", "200")  # of pytest's short summary
        run = run_pytest(folder, *options, test_failing_py=FAILING)
    assert f"{len(HISTORIES)} failed" in run.stdout, run.stdout + run.stderr
    cases = ET.parse(folder / "out.xml").iter("testcase")  # noqa: S314  # our own file
    return Failures(run.stdout, {case.get("name", ""): properties_of(case) for case in cases})


def section_of(printed: str, test: str) -> str:
    """What pytest printed of one failed test."""
    found = re.search(
        rf"^_+ {test} _+$(.*?)(?=^_+ \w+ _+$|^=+ )", printed, re.MULTILINE | re.DOTALL
    )
    assert found, test
    return found[1]


def history_in(printed: str, test: str) -> list[str]:
    """The lines of its history."""
    _, _, rest = section_of(printed, test).partition("RocketMQ, seconds since the test began")
    lines = rest.splitlines()[1:]
    return lines[: next(n for n, text in enumerate(lines) if text.startswith("page: ")) + 1]


def plain(lines: Iterable[str]) -> list[str]:
    """Without times, which depend on the machine."""
    texts = [re.sub(r"^ *(-?[\d.]+ s)? +", "", text) for text in lines]
    changing = (
        r"(?<=failing.py:)\d+|(?<=advanced, )\d+ times?$|(?<=has it for )[\d.]+ s$|(?<= in )\d+ ms"
    )
    return [re.sub(changing, "…", text) for text in texts]


@pytest.mark.parametrize("test", HISTORIES)
def test_the_history_says_what_happened_and_what_is_left(failures: Failures, test: str) -> None:
    *lines, page = history_in(failures.printed, test)
    wanted = [text.strip() for text in HISTORIES[test].strip().splitlines()]
    failed = next(n for n, text in enumerate(wanted) if text.startswith("the test failed"))
    told = plain(lines)
    # Clients and brokers run at once: the order of what they do may differ.
    assert sorted(told[:failed]) == sorted(wanted[:failed])
    assert told[failed:] == wanted[failed:]
    assert len(lines) < 15
    assert max(map(len, (*lines, page))) <= 100
    assert (
        page
        == f"page: left/{Path(failures.files[test]['rocketmq_report']).parent.name}/report.html"
    )


def test_tracebacks_end_in_the_test_and_the_summary_has_the_message(failures: Failures) -> None:
    for test in HISTORIES:
        shown = section_of(failures.printed, test)
        traceback = re.split(r"^-+ (?:Captured log|RocketMQ)", shown, flags=re.MULTILINE)[0]
        assert traceback.count("test_failing.py:") >= 1, test
        assert "rocketmq_emulator/" not in traceback, test
    summary = failures.printed.partition("short test summary info")[2]
    assert "::test_its_broker_was_killed - rocketmq_emulator.NoRoute: no" in summary
    assert "::test_a_queue_is_owned_by_a_crashed_member - AssertionError: assert 2 == 4" in summary


def test_the_page_has_the_messages_the_failure_and_a_verdict(failures: Failures) -> None:
    name = "test_a_tag_is_written_differently"
    data = data_of(Path(failures.files[name]["rocketmq_report"]).read_text())
    failure = data["failure"]
    assert failure["error"] == "AssertionError: assert 1 == 3"
    assert [row[1:] for row in failure["messages"]] == [
        [
            "orders",
            "broker-a/0",
            "0",
            "Paid",
            "filtered out: tag Paid, and billing reads only paid",
        ],
        [
            "orders",
            "broker-a/0",
            "1",
            "Paid",
            "filtered out: tag Paid, and billing reads only paid",
        ],
        ["orders", "broker-a/0", "2", "paid", "consumed"],
    ]
    assert "billing-1" in data["node_names"]
    (lane,) = [one for one in data["lanes"] if one["queue"]["topic"] == "orders"]
    owner, owned_from_us, owned_until_us, *_ = lane["spans"][0]
    # The block of the consumer was left by the failure, and ended after it.
    assert owner == "billing-1"
    assert owned_from_us < failure["failed_us"] <= owned_until_us
    assert data["judgement"]["raised"] == {}
    assert data["places"] == []
    assert data["judgement"]["tried"]["filters"] == 1


def test_time_zero_of_a_page_is_the_begin_of_its_test(failures: Failures) -> None:
    for test, files in failures.files.items():
        data = data_of(Path(files["rocketmq_report"]).read_text())
        first_us = data["facts"]["at_us"][0]  # of the reset, or of the cluster's start
        assert -5_000_000 < first_us < 0, test
        assert 0 < data["failure"]["failed_us"] - data["start_us"] < 120_000_000, test


@pytest.mark.sdk
def test_a_browser_shows_the_history_and_the_failure(failures: Failures, browser: Browser) -> None:
    page = failures.files["test_a_tag_is_written_differently"]["rocketmq_report"]
    browser.tell("open", Path(page).as_uri(), width=390, height=900)
    shown = browser.tell("eval", "document.getElementById('history').innerText")
    assert "billing-1 joined billing, reads orders (tag paid)" in shown
    red = browser.tell("eval", "document.querySelector('#history .bad').innerText")
    assert "the test failed: AssertionError: assert 1 == 3" in red
    assert browser.tell("eval", "document.querySelectorAll('#messages tr').length") == 4
    wide = "document.documentElement.scrollWidth > innerWidth"
    assert browser.tell("eval", wide) is False


def test_a_long_history_keeps_what_explains_most() -> None:
    noted: list[tuple[str, Fact]] = []
    for number in range(40):
        queue = Queue("a-topic-with-a-long-name", f"broker-{number}", number)
        noted.append((queue.broker, MessageStored(queue, 0, 0, f"K{number}", 100, "x" * 90)))
        if number % 4 == 0:
            noted.append(("world", NodeKilled(f"broker-{number}")))
    groups = {f"group-{number}": () for number in range(20)}
    entries = [
        Entry(number, 0, number * 1_000, node, fact)
        for number, (node, fact) in enumerate(noted, 1)
    ]
    fates = MessageFates(entries, 1_000_000, groups)
    lines = history_of(entries, FailedTest(0, 1_000_000, "AssertionError: " + "e" * 200), fates)
    assert len(lines) < 15
    assert max(map(len, lines)) <= 100
    assert any("broker-0 was killed" in text for text in lines)
    assert any(text.strip().endswith("events more, on the page") for text in lines)
    assert "the test failed: AssertionError: eee" in "\n".join(lines)
    assert [float(text.split()[0]) for text in lines if " s " in text[:12]] == sorted(
        float(text.split()[0]) for text in lines if " s " in text[:12]
    )


def test_a_history_tells_half_messages_their_ends_and_those_that_no_group_gets() -> None:
    queue = Queue("orders", "broker-a", 0)
    facts: list[Fact] = [
        *(HalfMessageStored(queue, number, 0, "shop", f"K{number}", -1) for number in range(3)),
        TransactionEnded(queue, 0, "rollback", "shop", False, -1, "K0"),
        TransactionChecked(queue, 1, 3, 1, "", "shop", "K1"),
    ]
    entries = [
        Entry(number, 0, number * 1_000, "broker-a", fact) for number, fact in enumerate(facts, 1)
    ]
    fates = MessageFates(entries, 1_000_000)
    assert history_of(entries, FailedTest(0, 1_000_000, "AssertionError"), fates) == [
        "  0.001 s 3 half messages sent to orders, put aside: broker-a/0",
        "  0.004 s 1 half message of orders rolled back",
        "  0.005 s broker-a asked nobody about 1 half message of orders: shop is not connected",
        "  1.000 s the test failed: AssertionError",
        "          orders: 2 half messages without a commit: no group gets them",
    ]
