"""The runner of the compatibility page: its record, and how it reads a program's lines."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from benchmarks.clusters import OURS, running
from tests.compatibility import run
from tests.compatibility.features import FEATURES, TITLES
from tests.compatibility.record import WORKS, Record, recorded
from tests.sdk.toolchains import found_or_skipped

# Features that the stories of tests/sdk do not tell, one of each kind.
OF_GO = ("consume-sql", "pull", "pull-commit", "admin-topics", "send-by-selector")


def test_a_feature_has_one_name_and_one_title() -> None:
    names = [name for section in FEATURES.values() for name in section]
    assert len(names) == len(set(names)) == len(TITLES) == len(set(TITLES.values()))


def test_an_outcome_takes_the_place_of_the_one_before() -> None:
    record = Record()
    record.add("go", "ours-4.9.7", {"pull": "fails: x", "recall": WORKS})
    record.add("go", "ours-4.9.7", {"pull": WORKS})
    record.add("go", "real-4.9.7", {"pull": WORKS, "recall": WORKS})
    assert record.sdks["go"]["pull"] == {"ours-4.9.7": WORKS, "real-4.9.7": WORKS}
    assert record.worse("go", "4.9.7") == []


def test_a_whole_run_leaves_no_outcome_of_a_feature_that_it_does_not_have() -> None:
    record = Record()
    record.add("go", "ours-4.9.7", {"pull": WORKS, "recall": WORKS, "namespace": WORKS})
    record.add("go", "real-4.9.7", {"pull": WORKS, "recall": WORKS})
    record.replace("go", "ours-4.9.7", {"pull": "fails: x"})
    assert record.sdks["go"] == {
        "pull": {"real-4.9.7": WORKS, "ours-4.9.7": "fails: x"},
        "recall": {"real-4.9.7": WORKS},
    }


def test_what_worked_before_and_does_not_now_is_lost() -> None:
    record = Record()
    record.add("go", "ours-5.3.3", {"pull": WORKS, "recall": WORKS, "namespace": "fails: y"})
    now = {"pull": WORKS, "namespace": WORKS}
    assert record.lost("go", "ours-5.3.3", now) == ["recall: absent"]
    assert record.lost("go", "ours-5.3.3", {**now, "recall": "fails: z"}) == ["recall: fails: z"]


def test_a_reason_has_no_address_no_time_and_one_line() -> None:
    text = "X: connect to 127.0.0.1:10911 failed, cost [17]ms\n  DESC: 1795857489191 See https://a"
    assert run.reason_of(text) == "X: connect to ADDRESS failed, cost N ms DESC: N"


def test_ours_gets_the_settings_that_it_knows_and_the_real_one_all() -> None:
    real, ours = run.command_of("real-5.3.3"), run.command_of("ours-5.3.3")
    assert {f"{name}={value}" for name, value in run.SETTINGS.items()} <= set(real)
    assert "enablePropertyFilter=true" in ours
    assert ours[ours.index("--release") + 1] == "5.3.3"


A_PROGRAM = """
print("noise")
print('{"feature": "pull", "outcome": "works", "why": ""}')
print('{"feature": "recall", "outcome": "absent", "why": ""}')
"""


def test_the_lines_of_a_program_are_read_and_its_noise_is_not(tmp_path: Path) -> None:
    lines = run.printed_lines([sys.executable, "-c", A_PROGRAM], {}, tmp_path)
    assert [json.loads(line)["outcome"] for line in lines] == ["works", "absent"]


def test_a_program_without_an_outcome_is_an_error_with_what_it_wrote(tmp_path: Path) -> None:
    dying = "import sys; sys.exit('no route')"
    with pytest.raises(AssertionError, match="printed no outcome; its errors: no route"):
        list(run.printed_lines([sys.executable, "-c", dying], {}, tmp_path))


@pytest.mark.sdk
def test_features_that_are_recorded_as_working_work(tmp_path: Path) -> None:
    command = found_or_skipped(lambda: run.PROGRAMS["go"].fetched(tmp_path))
    assert command.words
    record = recorded()
    with running((*OURS, "--brokers", "1", "--set", "enablePropertyFilter=true")) as cluster:
        now = dict(run.outcomes_on(cluster, "go", OF_GO))
    rows = record.sdks["go"]
    assert {name: rows[name]["ours-4.9.7"] for name in OF_GO} == now == dict.fromkeys(OF_GO, WORKS)
