"""The demo from end to end, with a file that has unusual lines."""

from __future__ import annotations

import re

import pytest

from tests.support.cli.command_line import rmqemu


@pytest.fixture(scope="module")
def done(tmp_path_factory):
    path = tmp_path_factory.mktemp("demo") / "odd.txt"
    lines = [f"line {number} – żółć 李".encode() for number in range(300)]
    lines[7], lines[8] = b"", b"\r"
    lines[9] = b"long " * 20_000
    lines[10] = b"\xff\xfe no text at all"
    path.write_bytes(b"\n".join(lines))
    return rmqemu("demo", "--quick", "--input", str(path))


def test_nothing_that_was_acknowledged_is_lost(done) -> None:
    assert done.returncode == 0, done.stdout.decode() + done.stderr.decode()
    account = dict(re.findall(r"^(\w+) +([\d,]*\d)", done.stdout.decode(), re.MULTILINE))
    assert account["lines"] == "298"
    assert account["sent"] == "298"
    assert int(account["delivered"]) >= 298
    assert account["lost"] == "0"


def test_in_a_pipe_the_story_is_plain_lines_in_order(done) -> None:
    text = done.stdout.decode()
    assert "\x1b" not in text
    main = (
        "three consumers start",
        "the producer starts: 298 lines",
        "consumer-b is killed with -9",
        "broker-b is killed with -9",
        "broker-b is back, with its store",
        "the last line is acknowledged",
        "every acknowledged line was delivered",
        "The account",
        "Try next",
    )
    places = [text.index(part) for part in main]
    assert places == sorted(places)


def test_somebody_took_the_dead_consumers_queues_over(done) -> None:
    assert "taken over from consumer-b" in done.stdout.decode()
    taken = re.findall(r"^broker-./\d .* by (\S+) in ", done.stdout.decode(), re.MULTILINE)
    assert taken
    assert set(taken) <= {"consumer-a", "consumer-c"}
