"""Journals become a folder of tables; runs are added to it, and bad lines are rejected by name."""

from __future__ import annotations

import fcntl
import gzip
from collections.abc import Callable
from threading import Barrier

import pytest

pytest.importorskip("pyspark")

import pandas as pd

from rocketmq_emulator.facts import FactsLeftOut, MessageStored, NodeKilled, Queue, RunStarted
from rocketmq_emulator.facts.journal import encode_entry
from rocketmq_emulator.pipeline.session import SparkUnavailable
from rocketmq_emulator.pipeline.tables import folder as folder_module
from rocketmq_emulator.pipeline.tables.facts import facts_of
from rocketmq_emulator.pipeline.tables.folder import (
    Added,
    TableFolder,
    TableFolderBusy,
    UnknownTable,
)
from rocketmq_emulator.pipeline.tables.journal_files import (
    JournalRun,
    NoJournals,
    run_id,
    runs_in,
)
from rocketmq_emulator.pipeline.tables.steps import STEPS
from tests.support.pipeline.written_journals import a_journal, a_start, entries, stored, write


def counts(added: Added) -> tuple[int, int, int, int]:
    return len(added.runs), added.known, added.facts, added.rejected


def rows(table, *columns: str) -> list[tuple]:
    return sorted(tuple(row) for row in table.select(*columns).collect())


def test_runs_are_added_without_reading_those_that_are_there(spark, tmp_path) -> None:
    folder = TableFolder(tmp_path / "tables", spark)
    first = a_journal(tmp_path / "journals" / "1.jsonl", seed=1, messages=2)
    assert counts(folder.add([first.parent])) == (1, 0, 3, 0)

    # The old journal has changed and has the same length: it is not read again.
    first.write_bytes(first.read_bytes()[:-20] + b"x" * 19 + b"\n")
    a_journal(first.parent / "2.jsonl", seed=2, messages=4)
    assert counts(folder.add([first.parent])) == (1, 1, 5, 0)

    first.unlink()
    assert counts(folder.add([first.parent, first.parent])) == (0, 1, 0, 0)
    assert rows(folder.table("facts").groupBy("run").count(), "count") == [(3,), (5,)]
    assert [(run.seed, run.facts) for run in folder.runs()] == [(1, 3), (2, 5)]


def test_a_journal_that_has_grown_replaces_its_shorter_self(spark, tmp_path) -> None:
    folder = TableFolder(tmp_path / "tables", spark)
    journal = a_journal(tmp_path / "run.jsonl", messages=1)
    folder.add([journal])
    a_journal(journal, messages=3)
    assert counts(folder.add([journal])) == (1, 0, 4, 0)
    assert folder.table("facts").count() == 4
    shorter = a_journal(tmp_path / "copy.jsonl", messages=2)
    assert counts(folder.add([shorter])) == (0, 1, 0, 0), "a shorter copy adds nothing"


def test_what_a_job_left_that_died_is_removed_and_never_read(spark, tmp_path) -> None:
    folder = TableFolder(tmp_path / "tables", spark)
    journal = a_journal(tmp_path / "run.jsonl", messages=1)

    def dies(*_: object) -> None:
        raise KeyboardInterrupt

    folder._commit = dies
    with pytest.raises(KeyboardInterrupt):
        folder.add([journal])
    again = TableFolder(tmp_path / "tables", spark)
    assert (tmp_path / "tables" / "bronze" / "batch=1").exists()
    assert again.runs() == []
    assert again.table("facts").count() == 0
    assert counts(again.add([journal])) == (1, 0, 2, 0)
    assert again.table("facts").count() == 2


def test_only_one_process_adds_at_a_time(tmp_path) -> None:
    folder = TableFolder(tmp_path / "tables")
    folder.path.mkdir()
    journal = a_journal(tmp_path / "run.jsonl")
    with (folder.path / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with pytest.raises(TableFolderBusy, match="nothing was added: wait for it"):
            folder.add([journal])


def test_a_folder_of_foreign_files_alone_has_empty_tables(spark, tmp_path) -> None:
    plan = tmp_path / "plan.toml"
    plan.write_text("seconds = 3\n")
    folder = TableFolder(tmp_path / "tables", spark)
    assert counts(folder.add([plan])) == (1, 0, 0, 1)
    assert folder.table("facts").count() == 0
    assert folder.table("messages").count() == 0


def test_bad_lines_and_foreign_files_are_rejected_and_the_job_goes_on(spark, tmp_path) -> None:
    journals = tmp_path / "odd [x] {1,2} ü%20"
    full = FactsLeftOut(missing_count=7, is_over=False)
    facts = (0, "world", a_start()), (5, "b", stored(0)), (7, "b", full), (9, "b", stored(1))
    lines = [encode_entry(each) for each in entries(*facts)]
    lines[1:1] = [
        b"hello\n",
        b"\n",
        b"[1]\n",
        b'{"a": 1}\n',
        b"\xff\xfe\x00\n",
        lines[1].replace(b"MessageStored", b"MessageEaten"),
        lines[1].replace(b'"offset":0', b'"offset":"none"'),
    ]
    journals.mkdir()
    (journals / "run 1.jsonl").write_bytes(b"".join(lines)[:-30])
    (journals / "junk.jsonl").write_bytes(bytes(range(256)))
    (journals / "notes.jsonl.gz").write_bytes(b"no gzip")
    newer = write(journals / "newer.jsonl", entries((0, "world", a_start(seed=3, schema=6))))
    folder = TableFolder(tmp_path / "tables", spark)
    assert counts(folder.add([journals])) == (4, 0, 3, 10)
    assert sorted(run.facts_missing for run in folder.runs()) == [0, 0, 0, 7]
    no_json, no_fact = "no JSON object: cut off, or damaged", "JSON, and no fact: it lacks"
    found = folder.table("rejected").collect()
    shown = sorted(
        (row.file.rpartition("/")[2], row.line, row.reason.partition(" seq,")[0]) for row in found
    )
    assert shown == [
        ("junk.jsonl", 0, "this is no journal: none of its first 2 lines is a fact"),
        (
            newer.name,
            0,
            "facts of schema 6, and this emulator reads up to 5: use the emulator that wrote it",
        ),
        ("notes.jsonl.gz", 0, "cannot be read (Not a gzipped file (b'no'))"),
        ("run 1.jsonl", 2, no_json),
        ("run 1.jsonl", 4, no_json),
        ("run 1.jsonl", 5, no_fact),
        ("run 1.jsonl", 6, no_json),
        ("run 1.jsonl", 7, "MessageEaten is no fact of schema 5: a newer emulator's?"),
        ("run 1.jsonl", 8, "a MessageStored that is not as schema 5 says"),
        ("run 1.jsonl", 11, no_json),
    ]
    assert {row.text for row in found if row.line == 2} == {"hello"}
    assert rows(facts_of(folder.table("facts"), MessageStored), "offset") == [(0,)]
    assert counts(folder.add([journals])) == (0, 4, 0, 0), "foreign files are known, too"


def test_compressed_journals_and_journals_of_nodes_are_read(spark, tmp_path) -> None:
    packed = tmp_path / "packed.jsonl.gz"
    packed.write_bytes(gzip.compress(a_journal(tmp_path / "plain", messages=3).read_bytes()))
    up = tmp_path / "up"
    write(up / "broker-a.jsonl", entries((5, "broker-a", stored(0)), (7, "broker-a", stored(1))))
    write(up / "world.jsonl", entries((6, "world", NodeKilled("broker-a"))))
    folder = TableFolder(tmp_path / "tables", spark)
    assert counts(folder.add([packed, up])) == (2, 0, 7, 0)
    assert {run.scenario: run.facts for run in folder.runs()} == {"cluster": 3, "storm": 4}
    of_nodes = folder.table("facts").where("scenario = 'cluster'")
    assert rows(of_nodes, "mono_us", "node", "place", "kind") == [
        (5, "broker-a", None, "MessageStored"),
        (6, "world", None, "NodeKilled"),
        (7, "broker-a", None, "MessageStored"),
    ]


def test_facts_of_a_kind_have_exactly_its_fields(spark, tmp_path) -> None:
    start = a_start(seed=4)
    other = Queue("orders", "broker-b", 3)
    journal = write(
        tmp_path / "run.jsonl",
        entries((0, "world", start), (3, "b", stored(7, other)), (4, "world", NodeKilled("c-1"))),
    )
    folder = TableFolder(tmp_path / "tables", spark)
    folder.add([journal])
    facts = folder.table("facts")
    (row,) = facts_of(facts, MessageStored).collect()
    assert row.asDict(recursive=True) == {
        "scenario": "storm",
        "run": run_id(start),
        "seq": 1,
        "at_ms": 1_700_000_000_000,
        "mono_us": 3,
        "node": "b",
        "place": 1,
        "queue": {"topic": "orders", "broker": "broker-b", "queue_id": 3},
        "offset": 7,
        "position": 700,
        "uniq_key": "key-7",
        "size_bytes": 100,
        "tags": "",
        "real_topic": "",
        "user_properties": [],
    }
    (killed,) = facts_of(facts, NodeKilled).collect()
    assert (killed.node, killed.fact_node) == ("world", "c-1")
    both = facts_of(facts, RunStarted, NodeKilled)
    assert rows(both, "kind", "seed") == [("NodeKilled", None), ("RunStarted", 4)]


def test_journals_of_schema_1_are_read_as_the_present_facts(spark, tmp_path) -> None:
    old = tmp_path / "old.jsonl"
    lines = (
        '{"kind":"NodeStarted","role":"broker","address":"","release":"4.9.7","schema":1}',
        (
            '{"kind":"MessageStored","topic":"t","queue_id":2,"offset":5,"position":9,'
            '"uniq_key":"k","size":77}'
        ),
        (
            '{"kind":"PullAnswered","group":"g","topic":"t","queue_id":2,"offset":5,"code":19,'
            '"messages":0,"next_offset":5}'
        ),
        '{"kind":"QueuesClaimed","group":"g","queues":[["t","broker-a",1],["t","broker-a",2]]}',
        (
            '{"kind":"RebalancePassed","group":"g","topic":"t","queues":8,"members":["a","b"],'
            '"mine":4}'
        ),
        (
            '{"kind":"BrokerRegistered","cluster":"c","broker":"b","broker_id":0,"address":"x",'
            '"topics":3,"first":true}'
        ),
    )
    old.write_text(
        "".join(
            f'{{"seq":{number},"at_ms":{1_000 + number},"node":"broker-a","fact":{fact}}}\n'
            for number, fact in enumerate(lines, 1)
        )
        + '{"seq":7,"at'
    )
    folder = TableFolder(tmp_path / "tables", spark)
    assert counts(folder.add([old])) == (1, 0, 6, 1)
    shown = {row.kind: row for row in folder.table("facts").collect()}
    queue = {"topic": "t", "broker": "broker-a", "queue_id": 2}
    stored_then = shown["MessageStored"]
    assert stored_then.mono_us == 1_002_000
    assert stored_then.fact.queue.asDict() == queue
    assert (stored_then.fact.offset, stored_then.fact.size_bytes) == (5, 77)
    pulled = shown["PullAnswered"].fact
    assert (pulled.response_code, pulled.message_count, pulled.code) == (19, 0, None)
    assert [each.queue_id for each in shown["QueuesClaimed"].fact.queues] == [1, 2]
    passed = shown["RebalancePassed"].fact
    assert (passed.queue_count, passed.own_count, passed.queues) == (8, 4, None)
    assert passed.members == ["a", "b"]
    assert (shown["BrokerRegistered"].fact.topic_count, passed.cause) == (3, None)


def test_a_journal_in_many_splits_keeps_its_order_and_its_line_numbers(spark, tmp_path) -> None:
    journal = a_journal(tmp_path / "run.jsonl", messages=200)
    lines = journal.read_bytes().splitlines(keepends=True)
    lines.insert(149, b"damaged\n")
    journal.write_bytes(b"".join(lines))
    folder = TableFolder(tmp_path / "tables", spark)
    split = "spark.sql.files.maxPartitionBytes"
    before = spark.conf.get(split)
    spark.conf.set(split, "4096")
    try:
        assert counts(folder.add([journal])) == (1, 0, 201, 1)
        assert rows(folder.table("rejected"), "line", "text") == [(150, "damaged")]
        stored_order = facts_of(folder.table("facts"), MessageStored).orderBy("place")
        assert [row.offset for row in stored_order.collect()] == list(range(200))
    finally:
        spark.conf.set(split, before)


def test_nothing_to_read_is_a_sentence(tmp_path) -> None:
    with pytest.raises(NoJournals, match="there is no such file or folder"):
        runs_in([tmp_path / "nowhere"])
    with pytest.raises(NoJournals, match=r"this folder has no journals \(\*\.jsonl"):
        runs_in([tmp_path])
    (tmp_path / "empty.jsonl").touch()
    with pytest.raises(NoJournals, match="the file is empty"):
        runs_in([tmp_path])


def test_a_run_is_known_by_what_makes_it_what_it_is() -> None:
    reordered = a_start(parameters='{"b":1,"a":2}'), a_start(parameters='{"a":2, "b":1}')
    assert run_id(reordered[0]) == run_id(reordered[1])
    changes = {"seed": 2, "release": "5.3.3", "parameters": "{}", "code_version": "2"}
    changed = {run_id(a_start(**{name: value})) for name, value in changes.items()}
    assert len(changed | {run_id(a_start())}) == 5


def test_each_row_says_of_which_run_it_is_and_runs_are_one_file_to_join_with(
    spark, tmp_path
) -> None:
    folder = TableFolder(tmp_path / "tables", spark)
    known = {1: "passed", 2: "failed", 3: "failed"}
    asked: list[int] = []

    def judge(run: JournalRun) -> Callable[[], str]:
        asked.append(run.seed)
        return lambda: known[run.seed]

    for seed in known:
        a_journal(tmp_path / "journals" / f"{seed}.jsonl", seed=seed, messages=seed)
    (tmp_path / "journals" / "foreign.jsonl").write_text("no journal\n")
    folder.add([tmp_path / "journals"], judge=judge)
    a_journal(tmp_path / "journals" / "3.jsonl", seed=3, messages=5)
    folder.add([tmp_path / "journals" / "3.jsonl"])
    assert asked == [1, 2, 3], "a foreign file has no verdict"

    of_run = ("run_seed", "run_release", "run_parameters", "run_code_version")
    wanted = [
        (seed, "4.9.7", '{"members":3}', "1", count) for seed, count in ((1, 2), (2, 3), (3, 6))
    ]
    for name in ("facts", "messages"):
        counts_of = folder.table(name).groupBy(*of_run).count()
        less = name == "messages"  # has no row for RunStarted
        assert rows(counts_of, *of_run, "count") == [(*row, n - less) for *row, n in wanted]
    assert rows(folder.table("members"), "release", "run_release") == []

    runs = pd.read_parquet(folder.path / "runs.parquet")
    storms = runs[runs.scenario == "storm"][["seed", "batch", "verdict"]]
    assert sorted(storms.itertuples(index=False, name=None)) == [
        (1, 1, "passed"),
        (2, 1, "failed"),
        (3, 2, ""),
    ]
    messages = pd.read_parquet(folder.path / "silver" / "messages")
    joined = messages.merge(runs, on=["run", "batch"])
    assert joined.run_seed.value_counts().to_dict() == {1: 1, 2: 2, 3: 5}, "not the shorter one"


def test_tables_are_made_at_the_same_time_and_each_after_those_it_reads(
    spark, tmp_path, monkeypatch
) -> None:
    folder = TableFolder(tmp_path / "tables", spark)
    folder.add([a_journal(tmp_path / "run.jsonl")])
    made: list[str] = []
    both = Barrier(2, timeout=60)

    def make(name: str, batch: int) -> None:
        if name in ("faults", "calls"):
            both.wait()  # passes only if two are made at once
        assert set(STEPS[name].reads) - {"facts"} <= set(made), name
        made.append(name)

    monkeypatch.setattr(folder, "_make", make)
    told: list[tuple[str, int, int]] = []
    folder.make_all(lambda *news: told.append(news))
    assert sorted(made) == sorted(STEPS)
    assert [(done, total) for _, done, total in told] == [
        (number, len(STEPS)) for number in range(1, len(STEPS) + 1)
    ]


def test_spark_compiles_queries_only_if_there_is_enough_to_read(tmp_path, monkeypatch) -> None:
    started: list[dict[str, str]] = []

    def start(_: str, settings: dict[str, str]) -> None:
        started.append(settings)
        raise SparkUnavailable

    monkeypatch.setattr(folder_module, "spark_session", start)
    journal = a_journal(tmp_path / "run.jsonl")
    for megabytes in (1, 100, 1_000):
        with journal.open("ab") as file:
            file.truncate(megabytes << 20)  # a hole, without blocks on the disk
        with pytest.raises(SparkUnavailable):
            TableFolder(tmp_path / "tables").add([journal])
    compiles = [settings.get("spark.sql.codegen.wholeStage") for settings in started]
    plans_again = [settings.get("spark.sql.adaptive.enabled") for settings in started]
    assert compiles == ["false", None, None]
    assert plans_again == ["false", "false", None]


def test_a_table_that_is_not_there_is_told_from_those_that_are(spark, tmp_path) -> None:
    with pytest.raises(UnknownTable, match="no table 'fact'; there are runs, rejected, facts"):
        TableFolder(tmp_path, spark).table("fact")
