"""``produce``: which input becomes messages, how many, how fast, and what Ctrl-C prints."""

from __future__ import annotations

import json
import signal
import subprocess
import time

import pytest
import trio

from rocketmq_emulator.cli.messages.line_sender import (
    LineSender,
    MessageTemplate,
    SendCounts,
    SendingProgress,
    SendJob,
    generated_bodies,
    generated_body,
    rate_of,
)
from rocketmq_emulator.cli.options.errors import BadUse
from rocketmq_emulator.cluster.spec import ClusterSpec
from rocketmq_emulator.cluster.worlds.embedded import EmbeddedCluster
from tests.support.cli.command_line import PATIENCE_S, RMQEMU, environment
from tests.support.cli.in_process import commands


@pytest.fixture(scope="module")
def cluster():
    with EmbeddedCluster(ClusterSpec()) as running:
        yield running


@pytest.fixture(scope="module")
def rmqemu(cluster):
    return commands(NAMESRV_ADDR=cluster.namesrv)


@pytest.fixture
def topic(rmqemu, request) -> str:
    name = request.node.name.partition("[")[0][:60]
    rmqemu("topic", "create", name, "--queues=1")
    return name


def stored(rmqemu, topic: str) -> list[dict]:
    lines = rmqemu("consume", f"--topic={topic}", "--peek", "--json").stdout.splitlines()
    return [json.loads(line) for line in lines]


def test_each_line_may_have_a_key_of_its_own(rmqemu, topic) -> None:
    lines = "A-1\tx\nplain\nA-2\ty\tz\n"
    rmqemu("produce", f"--topic={topic}", r"--key-delimiter=\t", "--property=a=1", stdin=lines)
    found = {(m["keys"], m["body"], m["properties"]["a"]) for m in stored(rmqemu, topic)}
    assert found == {("A-1", "x", "1"), (None, "plain", "1"), ("A-2", "y\tz", "1")}


def test_messages_are_made_up_in_any_number_and_size(rmqemu, topic) -> None:
    done = rmqemu("produce", f"--topic={topic}", "--count=70", "--size=40")
    assert done.stderr == "sent 70\n"
    found = stored(rmqemu, topic)
    assert sorted(int(m["body"].split()[1]) for m in found) == list(range(1, 71))
    assert {len(m["body"]) for m in found} == {40}


def test_a_count_takes_the_first_lines_of_a_file(rmqemu, topic, tmp_path) -> None:
    file = tmp_path / "lines"
    file.write_text("1\n2\n3\n4\n")
    rmqemu("produce", f"--topic={topic}", "--count=3", str(file))
    assert sorted(m["body"] for m in stored(rmqemu, topic)) == ["1", "2", "3"]


def test_one_queue_takes_all(rmqemu, topic) -> None:
    rmqemu("produce", f"--topic={topic}", "--queue=broker-b:0", stdin="1\n2\n3\n")
    assert [(m["broker"], m["body"]) for m in stored(rmqemu, topic)] == [
        ("broker-b", "1"),
        ("broker-b", "2"),
        ("broker-b", "3"),
    ]


def test_an_empty_pipe_is_said_to_be_empty(rmqemu, topic) -> None:
    done = rmqemu("produce", f"--topic={topic}")
    assert done.stderr == "nothing was read from standard input: sent 0\n"


@pytest.mark.parametrize(
    ("arguments", "code", "complaint"),
    [
        (("--key=a", "--key-delimiter=:"), 2, "give --key or --key-delimiter, not both"),
        (("--size=3", "file"), 2, "give FILE or --size, not both"),
        (("--property=colour",), 2, "--property is NAME=VALUE, not 'colour'"),
        (("--property=KEYS=x",), 2, "is used by system"),
        (("--property=a=b\x02c",), 2, "no property may hold \\x02"),
        (("--tag=a||b",), 2, "a message has one tag, not 'a||b'"),
        (("--key=a\x02b",), 2, "keys may not hold \\x02"),
        (("--rate=fast",), 2, "--rate is messages per second"),
        (("--queue=0",), 2, "--queue 0 is on 2 brokers: choose one of broker-a:0, broker-b:0"),
        (("--queue=broker-c:7",), 2, "broker-a:0, broker-b:0"),
        (("--key-delimiter=b",), 2, "line 1: the key b'\\xff' is not UTF-8 text (0 were sent"),
    ],
)
def test_what_cannot_be_sent_is_refused_before_anything_is(
    rmqemu, topic, arguments, code, complaint
) -> None:
    done = rmqemu("produce", f"--topic={topic}", *arguments, stdin=b"\xffb\n", code=code)
    assert complaint in done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert stored(rmqemu, topic) == []


def test_ctrl_c_at_an_open_pipe_says_how_many_were_acknowledged(rmqemu, cluster, topic) -> None:
    produce = subprocess.Popen(
        [*RMQEMU, "produce", f"--topic={topic}"],
        stdin=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment(NAMESRV_ADDR=cluster.namesrv),
    )
    produce.stdin.write(b"1\n2\n3 has no end")
    produce.stdin.flush()
    until_s = time.monotonic() + PATIENCE_S
    while len(stored(rmqemu, topic)) < 2:
        assert time.monotonic() < until_s
    produce.send_signal(signal.SIGINT)
    assert produce.wait(PATIENCE_S) == 130
    produce.stdin.close()
    with produce.stderr as said:
        assert said.read() == b"stopped: 2 acknowledged\n"
    assert len(stored(rmqemu, topic)) == 2


# The rate -----------------------------------------------------------------------------------


class FakeProducer:
    """Acknowledges each send at once, and notes its time."""

    def __init__(self) -> None:
        self.sent_at_s: list[float] = []

    async def send(self, _message, *, queue) -> None:
        self.sent_at_s.append(trio.current_time())


async def test_a_rate_spreads_messages_evenly(autojump_clock) -> None:
    producer, began_s = FakeProducer(), trio.current_time()
    job = SendJob(
        shape=MessageTemplate(topic="t"),
        file="-",
        count=5,
        size=10,
        is_generated=True,
        per_second=rate_of("2/s"),
        queue="",
        as_json=False,
    )
    sender = LineSender(producer, job, SendCounts(), SendingProgress(5, is_shown=False))
    await sender.send_all(generated_bodies(5, 10), trio.Event())
    assert [at_s - began_s for at_s in producer.sent_at_s] == pytest.approx([0, 0.5, 1, 1.5, 2])


@pytest.mark.parametrize("text", ["x", "-1", "inf", "nan", "1/m"])
def test_a_rate_that_cannot_be_is_refused(text) -> None:
    with pytest.raises(BadUse, match="--rate is messages per second"):
        rate_of(text)


def test_a_made_up_body_has_the_size_that_was_asked_for() -> None:
    assert generated_body(7, 0) == b"message 7"
    assert generated_body(7, 14) == b"message 7 ...."
    assert generated_body(7, 3) == b"mes"


def test_a_long_job_draws_a_bar_that_counts(monkeypatch, capsys) -> None:
    monkeypatch.setattr("rocketmq_emulator.cli.screens.progress_bar.FIRST_S", 0)
    monkeypatch.setenv("FORCE_COLOR", "1")
    with SendingProgress(1_000, is_shown=True) as progress:
        progress.show(250)
    assert "sent 250 of 1,000" in capsys.readouterr().err
    with SendingProgress(0, is_shown=False) as progress:
        progress.show(250)
    assert capsys.readouterr().err == ""
