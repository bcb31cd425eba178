"""The pytest plugin, as its users use it: small suites, each run by a separate pytest."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import xml.etree.ElementTree as ET
from pathlib import Path

from tests.support.paths import ROOT

RUN_S_MAX = 120.0

PLAIN = """
import asyncio
import pytest
from rocketmq_emulator import ResponseCode
from rocketmq_emulator.sync import Message, Producer, PushConsumer, SendError

FIRST = {"consume_from": "CONSUME_FROM_FIRST_OFFSET"}


def send(rocketmq, topic, *bodies):
    with Producer(namesrv=rocketmq.namesrv, group="shop") as producer:
        return [producer.send(Message(topic, body)) for body in bodies]


@pytest.mark.parametrize("number", range(4))
def test_each_test_begins_with_an_empty_cluster(rocketmq, number):
    assert rocketmq.sent_to("orders") == []
    send(rocketmq, "orders", b"one cup", b"two cups")
    assert [message.body for message in rocketmq.sent_to("orders")] == [b"one cup", b"two cups"]
    rocketmq.kill("broker-b")


def test_a_group_is_waited_for_until_it_has_consumed_all(rocketmq):
    came = []
    rocketmq.create_topic("orders", queues=2)
    with PushConsumer(came.extend, {"orders": "*"}, namesrv=rocketmq.namesrv, group="b", **FIRST):
        send(rocketmq, "orders", *[b"%d" % number for number in range(20)])
        rocketmq.wait_until_consumed("b", topics=["orders"])
        assert len(came) == 20
        assert {m.body for m in rocketmq.consumed_by("b")} == {m.body for m in came}


def test_who_consumes_nothing_is_named_with_what_is_left(rocketmq):
    send(rocketmq, "orders", b"one cup")
    with pytest.raises(AssertionError, match="not consumed all messages after 0.1 s: no member"):
        rocketmq.wait_until_consumed("billing", timeout=0.1)


def test_a_message_given_back_is_waited_for(rocketmq):
    def refuse(messages):
        raise ValueError("not today")

    send(rocketmq, "orders", b"one cup")
    with PushConsumer(refuse, {"orders": "*"}, namesrv=rocketmq.namesrv, group="b", **FIRST):
        with pytest.raises(AssertionError, match="retries not yet delivered: 1"):
            rocketmq.wait_until_consumed("b", timeout=2)


def test_the_next_sends_fail_and_then_they_work(rocketmq):
    rocketmq.fail_next("send", 2, error=ResponseCode.MESSAGE_ILLEGAL, nodes="broker-a")
    rocketmq.fail_next("send", 2, error=ResponseCode.MESSAGE_ILLEGAL, nodes="broker-b")
    with Producer(namesrv=rocketmq.namesrv, group="shop") as producer:
        with pytest.raises(SendError):
            producer.send(Message("orders", b"one cup"))
    rocketmq.reset()
    assert send(rocketmq, "orders", b"one cup")[0].queue_offset == 0
    with pytest.raises(ValueError, match="did you mean 'send'"):
        rocketmq.fail_next("sendd")


@pytest.mark.rocketmq(brokers=3, release="5.3.3", topics={"orders": 3})
def test_a_marker_says_what_cluster_it_is(rocketmq):
    assert rocketmq.spec.release == "5.3.3"
    send(rocketmq, "orders", *[b"x"] * 9)
    queues = {str(message.queue_id) for message in rocketmq.sent_to("orders")}
    assert queues <= {"0", "1", "2"}
    assert len(rocketmq.brokers) == 3


def test_a_factory_makes_one_more(rocketmq, rocketmq_factory):
    other = rocketmq_factory(brokers=1, settings={"autoCreateTopicEnable": False})
    assert other.namesrv != rocketmq.namesrv
    assert other.spec.release == "4.9.7"


@pytest.fixture(scope="session")
def application(rocketmq_session):
    came, namesrv = [], rocketmq_session.namesrv
    rocketmq_session.create_topic("jobs")
    # A reset removes the topic, a send makes it at one broker: so the route is asked for often.
    often = {"route_poll_interval_ms": 500, "rebalance_interval_ms": 500}
    with PushConsumer(
        came.extend, {"jobs": "*"}, namesrv=namesrv, group="app", **FIRST, **often
    ):
        yield came


@pytest.mark.parametrize("number", range(3))
def test_an_application_that_stays_connected_works_in_each_test(application, rocketmq, number):
    application.clear()
    send(rocketmq, "jobs", b"%d" % number)
    rocketmq.wait_until_consumed("app", timeout=40, topics=["jobs"])
    assert [message.body for message in application] == [b"%d" % number]


def test_async_tests_await_the_same(rocketmq):
    async def main():
        send(rocketmq, "orders", b"one cup")
        assert len(await rocketmq.awaited.sent_to("orders")) == 1
        with pytest.raises(RuntimeError, match="await cluster.awaited.wait_until_consumed"):
            rocketmq.wait_until_consumed("billing")
        with pytest.raises(AssertionError, match="no member is connected"):
            await rocketmq.awaited.wait_until_consumed("billing", 0.1)
        await rocketmq.awaited.call(rocketmq.restart, "broker-a")

    asyncio.run(main())
"""

VIRTUAL = """
import pytest
import trio
from rocketmq_emulator import Message, Producer, PushConsumer


@pytest.mark.rocketmq(seeds=3, topics=["orders"], settings={"autoCreateTopicEnable": False})
async def test_ten_minutes_pass_in_a_moment(virtual_cluster, tmp_path):
    cluster, came = virtual_cluster, []

    async def take(messages):
        came.extend(messages)

    async def consume(process):
        async with PushConsumer(
            take, {"orders": "*"}, process=process, namesrv=cluster.namesrv, group="b"
        ):
            await trio.sleep_forever()

    async def produce(process):
        async with Producer(process=process, namesrv=cluster.namesrv, group="shop") as producer:
            await producer.send(Message("orders", b"one cup"))

    cluster.start_client("consumer", consume)
    await trio.sleep(30)
    await cluster.start_client("producer", produce).wait_ended()
    cluster.kill("broker-b")
    await trio.sleep(600)
    assert [message.body for message in came] == [b"one cup"]
    assert (trio.current_time() > 630, tmp_path.exists()) == (True, True)


class TestInAClass:
    @pytest.mark.parametrize("seconds", [1, 2])
    async def test_methods_and_parameters_work_too(self, virtual_cluster, seconds):
        await trio.sleep(seconds)
        assert int(trio.current_time()) >= seconds


@pytest.mark.rocketmq(seed=7, seeds=5)
async def test_a_failure_comes_back(virtual_cluster):
    await trio.sleep(60)
    assert virtual_cluster.world.rng("dice").random() < 0, "never"


async def test_a_skip_is_a_skip(virtual_cluster):
    pytest.skip("not today")
"""

WITH_TRIO = """
async def test_a_trio_test_uses_a_cluster_over_tcp(rocketmq):
    from rocketmq_emulator import Message, Producer

    async with Producer(namesrv=rocketmq.namesrv, group="shop") as producer:
        await producer.send(Message("orders", b"one cup"))
    assert [message.body for message in await rocketmq.awaited.sent_to("orders")] == [b"one cup"]
    rocketmq.kill("broker-b")
    assert not rocketmq.is_running("broker-b")
"""

FAILING = """
import pytest
import rocketmq_emulator
import trio
from rocketmq_emulator.sync import Message, Producer


def test_it_fails_with_its_journal(rocketmq):
    with Producer(namesrv=rocketmq.namesrv, group="shop") as producer:
        producer.send(Message("orders", b"one cup"))
    assert rocketmq.sent_to("orders") == []


def test_the_next_one_has_a_journal_of_its_own(rocketmq):
    assert not [fact for fact in rocketmq.facts() if "orders" in str(fact)]


@pytest.mark.rocketmq(brokrs=3)
def test_an_option_there_is_not(rocketmq):
    pass


def test_a_plain_function_has_no_virtual_time(virtual_cluster):
    pass


@pytest.mark.rocketmq(strict=True)
def test_a_level_beyond_the_table_is_an_error_at_the_end(rocketmq):
    with Producer(namesrv=rocketmq.namesrv, group="shop") as producer:
        producer.send(Message("orders", b"one cup", delay_level=19))


@pytest.mark.rocketmq(strict=True)
async def test_two_bars_are_needed_in_virtual_time_too(virtual_cluster):
    async def consume(process):
        async with rocketmq_emulator.PushConsumer(
            print, {"orders": "a | b"}, process=process, group="g", listener_ms=1,
            namesrv=virtual_cluster.namesrv,
        ):
            await trio.sleep(1)

    await virtual_cluster.start_client("consumer", consume).wait_ended()


def test_a_scenario_is_a_test(run_scenario):
    (row,) = run_scenario("quiet.toml")
    assert row.verdict == "passed"


def test_a_scenario_that_fails_says_how_to_see_it_again(run_scenario):
    run_scenario("strict.toml", seed=3)
"""
QUIET = """
title = "Nothing happens"
cluster = { brokers = 1 }
[topics.orders]
queues = 2
[[load]]
topic = "orders"
rate = "5/s"
until = "2s"
[[consumers]]
group = "billing"
topic = "orders"
members = 1
[expect]
lost = 0
"""


def run_pytest(folder: Path, *arguments: str, **files: str) -> subprocess.CompletedProcess[str]:
    """Run pytest without this project's settings.

    It loads only the plugins that its arguments name: a search for plugins takes a second.
    """
    for name, text in files.items():
        (folder / name.replace("_toml", ".toml").replace("_py", ".py")).write_text(text)
    command = [sys.executable, "-m", "pytest", "-p", "rocketmq_emulator.testing.pytest_plugin"]
    command += ["-c", os.devnull, "--rootdir", str(folder), "-p", "no:cacheprovider"]
    return subprocess.run(
        [*command, "--strict-markers", "-W", "error", *arguments, "."],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
        capture_output=True,
        text=True,
        check=False,
        timeout=RUN_S_MAX,
    )


def test_plain_tests_of_two_workers_each_have_a_cluster_of_their_own(tmp_path) -> None:
    run = run_pytest(tmp_path, "-q", "-p", "xdist", "-n", "2", test_plain_py=PLAIN)
    assert "14 passed" in run.stdout, run.stdout + run.stderr


def test_virtual_tests_run_for_each_seed_beside_tests_of_trio(tmp_path) -> None:
    files = {"test_virtual_py": VIRTUAL, "test_trio_py": WITH_TRIO}
    (tmp_path / "conftest.py").write_text("from pytest_trio.enable_trio_mode import *\n")
    run = run_pytest(tmp_path, "-q", "-p", "trio", "-rA", "--rocketmq-journals", "left", **files)
    assert "1 failed, 4 passed, 1 skipped" in run.stdout, run.stdout + run.stderr
    assert "AssertionError: never" in run.stdout
    assert "assert virtual_cluster.world.rng" in run.stdout, "no traceback of pytest"
    again = "seed 7 (run 1 of 5); run it again: python -m pytest "
    assert again in run.stdout
    assert "--rocketmq-seed 7" in run.stdout
    (journal,) = (tmp_path / "left").glob("*/journal.jsonl")
    last = json.loads(journal.read_text().splitlines()[-1])
    assert last["mono_us"] > 30_000_000, "the journal reaches the failure"
    only = run_pytest(tmp_path, "-q", "-p", "trio", "--rocketmq-seed", "8", "-k", "comes_back")
    assert "seed 8 (run 1 of 1)" in only.stdout


def test_a_failure_leaves_journal_page_and_properties(tmp_path) -> None:
    strict = QUIET.replace("lost = 0", "lost = 1")
    files = {"test_failing_py": FAILING, "quiet_toml": QUIET, "strict_toml": strict}
    run = run_pytest(tmp_path, "-q", "--junitxml", "out.xml", **files)
    assert "4 failed, 3 passed, 2 errors" in run.stdout, run.stdout + run.stderr
    assert "MisusesFound: delay_beyond_table: " in run.stdout
    assert "MisusesFound: single_bar: " in run.stdout
    assert "a cluster has no option 'brokrs': did you mean brokers?" in run.stdout
    begins = {  # instead of a traceback, all of whose frames are ours
        "setup of test_an_option_there_is_not": "a cluster has no option 'brokrs': did you",
        "teardown of test_a_level_beyond_the_table_is_an_error_at_the_end": (
            "rocketmq_emulator.MisusesFound: delay_beyond_table: "
        ),
    }
    for title, text in begins.items():
        (line,) = re.findall(rf"^_+ ERROR at {title} _+\n(.*)$", run.stdout, re.MULTILINE)
        assert line.startswith(text)
    assert "uses virtual_cluster: it must be async" in run.stdout
    assert re.search(
        r" s 1 message sent to orders, stored: broker-[ab]/\d$", run.stdout, re.MULTILINE
    )
    assert "run it again: rmqemu run strict.toml --seed 3" in run.stdout
    found_cases = ET.parse(tmp_path / "out.xml").iter("testcase")  # noqa: S314  # our own file
    cases = {case.get("name"): case for case in found_cases}
    found = properties_of(cases["test_it_fails_with_its_journal"])
    lines = Path(found["rocketmq_journal"]).read_text().splitlines()
    kinds = [json.loads(line)["fact"]["kind"] for line in lines]
    assert "BrokerReset" in kinds[:15], "the journal begins with the test"
    assert kinds.count("MessageStored") == 1
    assert "<html" in Path(found["rocketmq_report"]).read_text()
    scenario = properties_of(cases["test_a_scenario_that_fails_says_how_to_see_it_again"])
    assert scenario["rocketmq_seed"] == "3"
    assert Path(scenario["rocketmq_report"]).exists()
    assert properties_of(cases["test_the_next_one_has_a_journal_of_its_own"]) == {}


def properties_of(case: ET.Element) -> dict[str, str]:
    return {p.get("name", ""): p.get("value", "") for p in case.iter("property")}


def test_a_run_without_our_fixtures_loads_nothing_of_ours(tmp_path) -> None:
    text = """
import sys
def test_nothing_is_loaded():
    ours = {name for name in sys.modules if name.startswith("rocketmq_emulator")}
    plugin = "rocketmq_emulator.testing.pytest_plugin"
    assert ours == {"rocketmq_emulator", "rocketmq_emulator.testing", plugin}
    assert not {"trio", "msgspec"} & sys.modules.keys()
"""
    run = run_pytest(tmp_path, "-q", test_it_py=text)
    assert "1 passed" in run.stdout, run.stdout


def test_the_tests_of_the_example_applications_pass(tmp_path) -> None:
    shutil.copytree(ROOT / "examples" / "pytest", tmp_path, dirs_exist_ok=True)
    run = run_pytest(tmp_path, "-q", "-p", "trio")
    assert "6 passed" in run.stdout, run.stdout + run.stderr


def test_the_tests_of_an_application_with_asyncio_pass_under_pytest_asyncio(tmp_path) -> None:
    shutil.copytree(ROOT / "examples" / "pytest_asyncio", tmp_path, dirs_exist_ok=True)
    scope = "asyncio_default_fixture_loop_scope=function"  # without it pytest-asyncio warns
    run = run_pytest(tmp_path, "-q", "-p", "asyncio", "-o", scope)
    assert "2 passed" in run.stdout, run.stdout + run.stderr


def test_options_are_listed_by_help(tmp_path) -> None:
    run = run_pytest(tmp_path, "--help")
    for name in ("release", "journals", "seed"):
        assert f"--rocketmq-{name}=" in run.stdout
        assert f"rocketmq_{name} " in run.stdout
