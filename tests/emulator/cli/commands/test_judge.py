"""``rmqemu judge`` of a running cluster and of journals: its exit codes and its output."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from rocketmq_emulator.cli.commands.judge import not_judged_lines
from rocketmq_emulator.cluster.worlds.embedded import EmbeddedCluster
from rocketmq_emulator.facts import Fact, MemberJoined, NodeStarted, PullAnswered, Queue
from rocketmq_emulator.facts.journal import Entry, encode_entry
from tests.support.cli.in_process import Run, commands

PEER = "127.0.0.1:4000"
ORDERS = Queue("orders", "broker-a", 0)
NODE = NodeStarted("broker", "127.0.0.1:10911", "4.9.7")
MEMBER = MemberJoined(
    "billing", "10.0.0.9@shop", PEER, "CONSUME_PASSIVELY", "CLUSTERING", "GO", 317
)


@pytest.fixture
def run() -> Run:
    return commands()


def a_journal(folder: Path, *facts: Fact) -> str:
    entries = [
        Entry(i, 1_000 * i, 1_000_000 * i, "broker-a", fact) for i, fact in enumerate(facts, 1)
    ]
    path = folder / "broker-a.jsonl"
    path.write_bytes(b"".join(map(encode_entry, entries)))
    return str(path)


def pulled(offset: int, opaque: int) -> PullAnswered:
    return PullAnswered("billing", ORDERS, offset, 0, 5, offset + 5, PEER, opaque)


def test_a_journal_of_a_client_that_leaves_messages_out(run: Run, tmp_path: Path) -> None:
    journal = a_journal(tmp_path, NODE, MEMBER, pulled(0, 7), pulled(9, 8))
    text = " ".join(run("judge", journal, code=1).stdout.split())
    assert "10.0.0.9@shop, GO V4_5_2" in text
    assert "billing (push clustering): breaks 1 rule" in text
    broken = "pulls_go_on, 1 time client invariant 61: every acknowledged message is delivered to"
    assert broken in text
    assert "client invariants (rmqemu docs invariants) 5 default producers of one" in text
    assert " 61 every acknowledged message is delivered to each group, or becomes a dead" in text
    assert "got nextBeginOffset 5 of orders@broker-a:0 and pulls at 9: it leaves 4 out" in text
    assert (
        "+1.000 s broker-a: PULL_MESSAGE (11) opaque 8 from 127.0.0.1:4000 consumerGroup=billing "
        "topic=orders queueId=0 queueOffset=9 → answered SUCCESS (0), nextBeginOffset 14, "
        "5 messages"
    ) in text
    assert "not judged: heartbeats_come, members_unregister, " in text


@pytest.mark.parametrize("width", [60, 80])
def test_checkers_that_could_not_judge_have_two_lines(width: int) -> None:
    why = {f"checker_{number}": f"the journal has no X{number}" for number in range(20)}
    many = not_judged_lines(why, width)
    assert many[1].endswith(" … (all: --json)")
    some = not_judged_lines(dict(list(why.items())[:5]), width)
    assert " ".join(" ".join(some).split()).endswith("checker_3, checker_4 (why: --json)")
    assert not_judged_lines({"locks": "no lock"}, width) == ["not judged: locks (no lock)"]
    for lines in (many, some):
        assert len(lines) <= 2
        assert all(len(line) <= width for line in lines)


def test_the_verdict_as_json_and_the_exit_code_of_a_good_one(run: Run, tmp_path: Path) -> None:
    journal = a_journal(tmp_path, NODE, MEMBER, pulled(0, 7), pulled(5, 8))
    verdict = json.loads(run("judge", journal, "--json").stdout)
    assert verdict["broken"] == []
    assert verdict["clients"][0]["request_count"] == 2
    assert "pulls_go_on" in verdict["judged"]


def test_what_cannot_be_judged_is_said(run: Run, tmp_path: Path) -> None:
    nobody = run("judge", a_journal(tmp_path, NODE), code=4)
    assert "the journals have no consumer" in nobody.output
    (tmp_path / "broker-a.jsonl").write_bytes(b"no journal\n")
    assert "line 1: this is no journal" in run("judge", str(tmp_path), code=2).output
    assert "a length of time is written as" in run("judge", "--for", "soon", code=2).output
    gone = run("judge", "--control", "127.0.0.1:1", "--for", "1s", code=3)
    assert "no control address answers" in gone.output


BAD_CLIENT = """
import sys
import trio
from rocketmq_emulator import ConsumeResult, Message, Producer, PushConsumer, run

seen = []
enough = trio.Event()


async def listen(messages):
    seen.extend(messages)
    if len(seen) >= 10:
        enough.set()
    return ConsumeResult.SUCCESS if len(seen) % 3 else ConsumeResult.RECONSUME_LATER


async def main():
    here = {"namesrv": sys.argv[1]}
    async with Producer(group="shop", **here) as producer:
        for _ in range(10):
            await producer.send(Message("orders", b"x"))
        start = {"consume_from": "CONSUME_FROM_FIRST_OFFSET", "quirks": sys.argv[2:]}
        async with PushConsumer(listen, {"orders": "*"}, group="billing", **start, **here):
            with trio.fail_after(30):
                await enough.wait()


run(main)
"""


def test_a_process_beside_a_cluster_that_commits_too_soon_is_objected_to(run: Run) -> None:
    environment = {**os.environ}  # a copy: os.environ may change while a process starts
    with ThreadPoolExecutor(1) as pool:
        with EmbeddedCluster(control=0) as cluster:
            control = cluster.control.removeprefix("http://")
            judged = pool.submit(run, "judge", "--control", control, "--json", code=1)
            command = [sys.executable, "-c", BAD_CLIENT, cluster.namesrv, "commit_when_pulled"]
            subprocess.run(command, check=True, timeout=60, env=environment)
        verdict = json.loads(judged.result(timeout=30).stdout)
    broken = {rule["monitor"]: rule for rule in verdict["broken"]}
    (client_id,) = [each["client"] for each in verdict["clients"]]
    assert broken.keys() == {"given_back_before_committed"}
    assert broken["given_back_before_committed"]["client"] == client_id
    frames = broken["given_back_before_committed"]["frames"]
    assert [frame["request"] for frame in frames][-1] == "CONSUMER_SEND_MSG_BACK"
    assert "heartbeats_come" in verdict["judged"]  # requests are noted while a judge runs
