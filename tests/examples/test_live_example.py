"""The live example, started as by a user: a broker is killed, and the page shows exact counts."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
from collections.abc import Iterator

import pytest

from tests.support.paths import ROOT

END_S_MAX = 60


@pytest.fixture
def program(spark_parts, monkeypatch) -> Iterator[subprocess.Popen[str]]:
    """The example: 12 s of orders, the broker is away for 3 s; skipped if there is no Spark."""
    del spark_parts
    monkeypatch.setenv("JAVA_TOOL_OPTIONS", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")
    command = [sys.executable, str(ROOT / "examples" / "spark" / "live.py")]
    times = ["--seconds", "12", "--kill", "3", "--away", "3", "--rate", "50"]
    with subprocess.Popen(
        [*command, *times], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as running:
        yield running
        if running.poll() is None:
            running.kill()


def test_counts_are_exact_though_a_broker_dies_and_the_page_shows_it(program, browser) -> None:
    url = program.stdout.readline().split()[-1]
    lines = []
    for line in iter(program.stdout.readline, "Ctrl-C ends it\n"):
        assert line, lines
        lines.append(line)
    said = "".join(lines)
    sent = re.search(r"sent +([\d,]+) orders, all acknowledged", said)[1]
    assert int(sent.replace(",", "")) > 400
    assert re.search(rf"counted +{sent} orders in \d+ windows of 2 s, as the shop", said), said
    assert re.search(rf"table +[\d,]+ messages, {sent} different orders, each place once", said), (
        said
    )
    assert re.search(r" 3\.\d s  broker-b killed\n +6\.\d s  broker-b back", said), said
    browser.tell("open", url)
    assert browser.tell("eval", "document.documentElement.dataset.ready") == "exact"
    figures = browser.tell("eval", "document.getElementById('figures').innerText").split()
    assert figures[:6] == [sent, "sent", sent, "counted", "0", "behind"]
    bars = "document.querySelectorAll('#windows .trace.bars .point').length"
    assert browser.tell("eval", bars) >= 4 * 6  # four regions, six windows
    program.send_signal(signal.SIGINT)
    assert program.wait(END_S_MAX) == 0
