"""The page as a file: it needs no other file, has every fact, and escapes every name."""

from __future__ import annotations

import base64
import itertools
import re
import zlib
from typing import Any

import msgspec

from rocketmq_emulator.checks.state.violation import Judgement, Violation
from rocketmq_emulator.facts import Queue, QueuesClaimed, SendFailed, TopicCreated
from rocketmq_emulator.facts.journal import Entry, encode_entry
from rocketmq_emulator.scenarios.plan.plan import Expectation, Plan
from rocketmq_emulator.scenarios.plan.result import started
from rocketmq_emulator.scenarios.report.page import write_page
from rocketmq_emulator.scenarios.report.report_data import read_report_data
from tests.support.scenarios.journals_for_reports import (
    BOOT_US,
    EPOCH_MS,
    a_claim,
    a_commit,
    a_consumption,
    a_journal,
    a_send,
    a_store,
)

HOSTILE = "</script><script>alert(1)</script><!-- {{data}} {{script}} \u2028 \x00 ☃"


def data_of(page: str) -> dict[str, Any]:
    """The data that the script of *page* reads."""
    (text,) = re.findall(r'<script type="application/octet-stream" id="data">([^<]*)<', page)
    found: dict[str, Any] = msgspec.json.decode(zlib.decompress(base64.b64decode(text)))
    return found


def facts_in(page: str) -> list[dict[str, Any]]:
    """The journal, rebuilt from the columns of *page*."""
    data = data_of(page)
    facts, rows, walls = data["facts"], {}, {}
    columns = [
        [list(itertools.accumulate(column)) for column in kind["columns"]]
        for kind in facts["kinds"]
    ]
    times, numbers = itertools.accumulate(facts["at_us"]), itertools.accumulate(facts["seq"])
    found = []
    for at_us, seq, wall, node, kind in zip(
        times, numbers, facts["wall_ms"], facts["node"], facts["kind"], strict=True
    ):
        row = rows[kind] = rows.get(kind, -1) + 1
        walls[node] = walls.get(node, 0) + wall
        table = facts["kinds"][kind]
        fact = {"kind": table["name"]}
        for name, column in zip(table["fields"], columns[kind], strict=True):
            value = column[row]
            fact[name] = facts["values"][value] if name in table["texts"] else value
        entry = {"seq": seq, "at_ms": walls[node] + at_us // 1_000, "mono_us": at_us + BOOT_US}
        found.append({**entry, "node": data["node_names"][node], "fact": fact})
    return found


def written(entry: Entry) -> dict[str, Any]:
    """The entry as in the journal, plus the fields omitted there because they have defaults."""
    found: dict[str, Any] = msgspec.json.decode(encode_entry(entry))
    found["fact"] |= msgspec.json.decode(msgspec.json.encode(msgspec.structs.asdict(entry.fact)))
    return found


def a_varied_journal() -> list[Entry]:
    noted = [
        (0, "broker-a", TopicCreated(HOSTILE, 4, 4, 6, "admin")),
        (1, "billing-1", a_claim(0, 1)),
        *[(1 + i / 7, "broker-a", a_store(i)) for i in range(20)],
        (4, "producer-1", a_send(3)),
        (4, "producer-1", SendFailed("orders", "KEY", 3, "NoAnswer", maybe_stored=True)),
        (5, "billing-1", a_consumption(2)),
        (6, "broker-a", a_commit(3)),
        (7, "broker-a", a_commit(2)),
    ]
    return a_journal(*noted)


def test_every_fact_is_in_the_page_with_all_its_fields() -> None:
    entries = a_varied_journal()
    entries[3] = msgspec.structs.replace(entries[3], at_ms=EPOCH_MS - 86_400_000)  # a clock jumped
    wanted = [written(entry) for entry in entries]
    assert facts_in(write_page(read_report_data(entries), "a run")) == wanted


def test_facts_of_a_kind_that_come_in_thousands_are_all_there() -> None:
    entries = a_journal(*[(i / 100, "broker-a", a_store(i)) for i in range(9_000)])
    found = facts_in(write_page(read_report_data(entries), "a run"))
    assert [entry["fact"]["offset"] for entry in found] == list(range(9_000))


def test_names_are_text_whatever_they_are() -> None:
    queue = Queue(HOSTILE, HOSTILE, 0)
    entries = a_journal((0, HOSTILE, QueuesClaimed(HOSTILE, (queue,))), (1, "b", a_store(0)))
    page = write_page(read_report_data(entries), HOSTILE)
    plain = write_page(read_report_data(a_journal((0, "a", a_claim(0)))), "a run")
    assert page.count("<script") == plain.count("<script")
    assert page.count("</script") == plain.count("</script")
    assert "alert(1)</script>" not in page
    assert data_of(page)["title"] == HOSTILE


def test_the_page_loads_nothing_and_its_policy_says_so() -> None:
    page = write_page(read_report_data(a_varied_journal()), "a run")
    assert re.findall(r"(?:src|href)=", page) == []
    assert "default-src 'none'" in page
    assert "://" not in re.sub(r'id="data">[^<]*<', "", page)


def test_a_page_of_few_facts_is_small() -> None:
    page = write_page(read_report_data(a_varied_journal()), "a run")
    assert len(page) < 85_000


def summary_of(page: str) -> str:
    """What a browser without JavaScript shows of *page*."""
    (found,) = re.findall(r"<noscript>(.*?)</noscript>", page, re.DOTALL)
    return str(found)


def test_without_a_script_the_page_has_verdict_expectations_violations_and_parameters() -> None:
    plan = Plan(
        name="orders",
        title="A short run",
        expect=(
            Expectation(metric="lost", operator="==", bound=0),
            Expectation(metric="duplicates", bound=9),
        ),
        parameters={"members": 5},
    )
    began = started(plan, 7, "virtual", "1")
    entries = a_journal((0, "world", began), (1, HOSTILE, a_claim(0)), (9, "broker-a", a_store(0)))
    violation = Violation(
        checker="lost", rule="nothing", what=HOSTILE, mono_us=BOOT_US + 1_500_000, node="billing-1"
    )
    judgement = Judgement(
        violations=(violation,), metrics={"lost": 3.0, "duplicates": 2.0}, fact_count=3
    )
    page = write_page(read_report_data(entries, lambda: judgement), "a run")
    summary = summary_of(page)
    assert '<b class="bad">failed</b>: lost: &lt;/script&gt;' in summary
    assert "seed 7" in summary
    assert "<td>lost == 0</td><td>3</td><td>not met</td>" in summary
    assert "<td>duplicates &lt;= 9</td><td>2</td><td>met</td>" in summary
    assert "<td>1.500</td><td>lost</td><td>billing-1</td>" in summary
    assert "<td>members</td><td>5</td>" in summary
    assert "need JavaScript" in summary
    assert "<script" not in summary
