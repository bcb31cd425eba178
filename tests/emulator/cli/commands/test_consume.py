"""``consume``, ``watch``: a message that was not written is not consumed; a peek has no group."""

from __future__ import annotations

import json
import signal
import subprocess
from pathlib import Path

import pytest

from rocketmq_emulator.cli.messages.positions import Position, position
from rocketmq_emulator.cli.messages.printer import FIELDS, LineFormat, unescaped
from rocketmq_emulator.cli.options.errors import BadUse
from rocketmq_emulator.cluster.spec import ClusterSpec
from rocketmq_emulator.cluster.worlds.embedded import EmbeddedCluster
from tests.support.cli.command_line import PATIENCE_S, RMQEMU, environment, started
from tests.support.cli.in_process import commands


@pytest.fixture(scope="module")
def cluster():
    with EmbeddedCluster(ClusterSpec()) as running:
        yield running


@pytest.fixture(scope="module")
def rmqemu(cluster):
    run = commands(NAMESRV_ADDR=cluster.namesrv)
    for topic in ("letters", "other"):
        run("topic", "create", topic, "--queues", "2")
    for line in ("1", "2", "3", "4", "5", "6"):
        keys = ("--key", f"k{line} even") if int(line) % 2 == 0 else ()
        run("produce", "--topic", "letters", "--tag", "T", *keys, stdin=line)
    return run


def committed(rmqemu, group: str) -> int:
    described = json.loads(rmqemu("group", "describe", group, "--json").stdout)
    return sum(queue["committed"] for queue in described["queues"])


# Output that fails --------------------------------------------------------------------------


def test_what_a_full_disk_did_not_take_is_not_consumed(rmqemu, cluster) -> None:
    with Path("/dev/full").open("wb") as full:
        done = subprocess.run(
            [*RMQEMU, "consume", "--topic=letters", "--group=full", "--count=6"],
            stdout=full,
            stderr=subprocess.PIPE,
            env=environment(NAMESRV_ADDR=cluster.namesrv),
            timeout=PATIENCE_S,
            check=False,
        )
    assert done.returncode == 1
    assert done.stderr == b"rmqemu: cannot write to standard output: No space left on device\n"
    assert committed(rmqemu, "full") == 0
    got = rmqemu("consume", "--topic=letters", "--group=full", "--count=6", "--timeout=20")
    assert sorted(got.stdout.split()) == ["1", "2", "3", "4", "5", "6"]


def test_what_a_closed_pipe_did_not_take_is_not_consumed(rmqemu, cluster) -> None:
    command = subprocess.Popen(
        [*RMQEMU, "consume", "--topic=letters", "--group=closed"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment(NAMESRV_ADDR=cluster.namesrv),
    )
    command.stdout.close()
    command.stdout = None
    assert command.communicate(timeout=PATIENCE_S)[1] == b""
    assert command.returncode == 1
    assert committed(rmqemu, "closed") == 0


# A peek -------------------------------------------------------------------------------------


def test_a_peek_prints_all_queues_by_time_and_leaves_no_group(rmqemu) -> None:
    before = rmqemu("group", "list", "--json").stdout
    assert rmqemu("consume", "--topic=letters", "--peek").stdout.split() == list("123456")
    assert rmqemu("group", "list", "--json").stdout == before
    described = json.loads(rmqemu("topic", "describe", "letters", "--json").stdout)
    assert "TOOLS_CONSUMER" not in described["groups"]


def test_a_peek_of_a_few_ends_after_them(rmqemu) -> None:
    got = rmqemu("consume", "--topic=letters", "--peek", "--count=2", "--format={topic}|{body}")
    assert got.stdout.splitlines() == ["letters|1", "letters|2"]


def test_a_peek_from_a_time_prints_what_was_stored_since(rmqemu) -> None:
    stored = json.loads(
        rmqemu("consume", "--topic=letters", "--peek", "--json").stdout.split("\n")[3]
    )
    since = f"--from={stored['stored_ms']}"
    got = rmqemu("consume", "--topic=letters", "--peek", since).stdout.split()
    assert got[-3:] == ["4", "5", "6"]
    assert rmqemu("consume", "--topic=other", "--peek", "--from=10m").stdout == ""


def test_a_peek_reads_on_where_a_pull_ends(rmqemu) -> None:
    rmqemu("topic", "create", "long", "--queues", "1")
    rmqemu("produce", "--topic=long", "--count=200", "--queue=broker-a:0")
    got = rmqemu("consume", "--topic=long", "--peek").stdout.splitlines()
    assert got == [f"message {number}" for number in range(1, 201)]


def test_fewer_messages_than_a_peek_asks_for_are_a_failure_that_says_so(rmqemu) -> None:
    done = rmqemu("consume", "--topic=letters", "--peek", "--count=9", code=1)
    assert done.stderr == "rmqemu: only 6 of 9 messages are there\n"


# Selecting and showing ----------------------------------------------------------------------


def test_a_key_selects_whole_keys(rmqemu) -> None:
    peek = ("consume", "--topic=letters", "--peek")
    assert rmqemu(*peek, "--key=even").stdout.split() == ["2", "4", "6"]
    assert rmqemu(*peek, "--key=k4").stdout.split() == ["4"]
    assert rmqemu(*peek, "--key=k").stdout == ""
    assert rmqemu(*peek, "--tags=T || U").stdout.split() == list("123456")
    assert rmqemu(*peek, "--tags=U").stdout == ""


def test_a_key_passes_over_the_others_in_a_group(rmqemu) -> None:
    rmqemu(
        "consume", "--topic=letters", "--group=keyed", "--key=even", "--count=3", "--timeout=20"
    )
    assert committed(rmqemu, "keyed") >= 3


@pytest.mark.parametrize("name", FIELDS)
def test_every_field_of_a_format_shows_something(rmqemu, name) -> None:
    wanted = ("--key=k2", f"--format=<{{{name}}}>")
    line = rmqemu("consume", "--topic=letters", "--peek", *wanted).stdout
    assert line.startswith("<")
    assert line.endswith(">\n")
    assert len(line) > 3


def test_a_format_has_escapes_braces_and_single_properties(rmqemu) -> None:
    wanted = r"--format={{{body}}}\t{property:KEYS}\\{property:none}."
    got = rmqemu("consume", "--topic=letters", "--peek", "--key=k6", wanted).stdout
    assert got == "{6}\tk6 even\\.\n"
    assert unescaped(r"\\t\t") == "\\t\t"


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("{bodi}", "did you mean {body}?"),
        ("{body", "a brace itself is written twice"),
        ("{}", "no field ''"),
        ("{body!r}", "is written {body}"),
        ("{property}", "property:NAME"),
    ],
)
def test_a_format_that_cannot_be_is_refused(text, complaint) -> None:
    with pytest.raises(BadUse, match=complaint.replace("?", r"\?").replace("{", r"\{")):
        LineFormat(text)


# Where to start -----------------------------------------------------------------------------


def test_a_new_group_that_wants_the_latest_gets_nothing_older(rmqemu) -> None:
    latest = ("consume", "--topic=letters", "--group=latest", "--from=latest", "--timeout=1.5")
    assert rmqemu(*latest).stdout == ""
    assert committed(rmqemu, "latest") == 6


def test_a_group_that_has_offsets_goes_on_from_them_and_that_is_said(rmqemu) -> None:
    first = ("consume", "--topic=letters", "--group=known", "--count=6", "--timeout=20")
    rmqemu(*first)
    again = rmqemu(*first[:3], "--from=earliest", "--timeout=0.2")
    assert again.stdout == ""
    assert "known has offsets in letters and goes on from them" in again.stderr


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("earliest", Position("first")),
        ("latest", Position("last")),
        ("10m", Position("time", 1_000_000)),
        ("1700000000123", Position("time", 1_700_000_000_123)),
        ("2024-05-31T12:00+00:00", Position("time", 1_717_156_800_000)),
    ],
)
def test_places_are_words_ages_and_times(text, place) -> None:
    assert position(text, "--from", now_ms=1_600_000) == place


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (("--from=here",), "--from is earliest, latest or a time"),
        (("--from=1717156800",), "epoch times are in milliseconds"),
        (("--peek", "--group=g"), "--peek reads without a group"),
        (("--peek", "--from=latest"), "use `rmqemu watch letters`"),
        (("--json", "--format={body}"), "give --format or --json, not both"),
        (("--tags=||", "--peek"), "--tags ||"),
    ],
)
def test_use_that_makes_no_sense_is_refused(rmqemu, arguments, complaint) -> None:
    done = rmqemu("consume", "--topic=letters", *arguments, code=2)
    assert complaint in done.stderr
    assert len(done.stderr.splitlines()) == 1


# Watching -----------------------------------------------------------------------------------


def test_a_watch_shows_what_comes_and_waits_for_a_broker_that_is_away() -> None:
    with EmbeddedCluster(ClusterSpec()) as cluster:
        run = commands(NAMESRV_ADDR=cluster.namesrv)
        run("topic", "create", "seen", "--queues=1")
        run("produce", "--topic=seen", stdin="before")
        with started("watch", "seen", "--from=1h", "-n", cluster.namesrv) as watch:
            assert watch.stdout.readline().rstrip().endswith(b"  before")
            run("produce", "--topic=seen", "--key=k", "--queue=broker-b:0", stdin="one")
            _, place, *rest = watch.stdout.readline().split()
            assert place.startswith(b"broker-b/0/")
            assert rest == [b"k", b"one"]
            cluster.kill("broker-b")
            assert watch.stderr.readline().startswith(b"rmqemu: broker-b does not answer")
            cluster.start("broker-b")
            assert watch.stderr.readline() == b"rmqemu: broker-b answers again\n"
            run("produce", "--topic=seen", "--queue=broker-a:0", stdin="two")
            assert watch.stdout.readline().split()[-1] == b"two"
            watch.send_signal(signal.SIGINT)
            assert watch.wait(PATIENCE_S) == 0
            assert (watch.stdout.read(), watch.stderr.read()) == (b"", b"")
        assert json.loads(run("group", "list", "--json").stdout) == []
