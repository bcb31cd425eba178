"""``rmqemu explain``: a folder of several runs, and runs that ended with an error."""

from __future__ import annotations

import itertools
import json
from pathlib import Path

import pytest

from rocketmq_emulator.cli.commands.explain import explanation_lines
from rocketmq_emulator.cli.commands.replay import one_journal
from rocketmq_emulator.facts import TopicCreated
from rocketmq_emulator.scenarios.after.causes import MetricCause
from rocketmq_emulator.scenarios.after.replay import started_in
from rocketmq_emulator.scenarios.after.unmet_expectations import UnmetExpectations
from tests.support.checks.small_journals import Q0, AJournal
from tests.support.cli.in_process import Run, commands
from tests.support.scenarios.journals_of_runs import a_run

UNKNOWN_NODE = "UnknownNode: there is no node named 'brokers'"


@pytest.fixture
def run() -> Run:
    return commands()


def test_of_several_runs_the_first_that_did_not_pass_is_explained(
    run: Run, tmp_path: Path
) -> None:
    for seed, lost in ((2, 0), (10, 1), (9, 2), (11, 0)):
        a_run(tmp_path, seed, lost=lost)
    done = run("explain", str(tmp_path), code=1)
    assert "orders-seed9.jsonl: of 4 runs the first that did not pass (1 before it" in done.stderr
    assert done.stdout.startswith("lost at ")
    assert "(and 1 more)" in done.stdout or "also: " in done.stdout


def test_several_runs_that_passed_are_counted(run: Run, tmp_path: Path) -> None:
    for seed in (1, 2, 3):
        a_run(tmp_path, seed)
    done = run("explain", str(tmp_path))
    assert done.stdout.splitlines()[0] == "nothing is wrong"
    assert "all 3 runs passed" in done.stderr


def test_the_json_names_the_journal_that_is_explained(run: Run, tmp_path: Path) -> None:
    a_run(tmp_path, 1)
    failed = a_run(tmp_path, 2, lost=1)
    told = json.loads(run("explain", str(tmp_path), "--json", code=1).stdout)
    assert told["journal"] == str(failed)
    assert told["explanation"]["violation"]["checker"] == "lost"


def test_a_run_that_ended_with_an_error_is_not_right(run: Run, tmp_path: Path) -> None:
    journal = a_run(tmp_path, 1, error=UNKNOWN_NODE)
    done = run("explain", str(journal), code=1)
    assert "nothing is wrong" not in done.stdout
    assert f"the run did not finish (error): {UNKNOWN_NODE}" in done.stdout


@pytest.mark.parametrize("command", ["inspect", "judge"])
def test_a_command_for_one_run_asks_which_of_several(
    run: Run, tmp_path: Path, command: str
) -> None:
    first = a_run(tmp_path, 1)
    a_run(tmp_path, 2)
    done = run(command, str(tmp_path), code=2)
    assert f"these are 2 runs: name one of {first}, " in done.stderr


@pytest.mark.parametrize("command", ["replay", "shrink"])
def test_a_folder_of_runs_is_answered_with_their_scenarios_and_seeds(
    run: Run, tmp_path: Path, command: str
) -> None:
    first = a_run(tmp_path, 1)
    second = a_run(tmp_path, 2)
    done = run(command, str(tmp_path), code=2)
    for journal, seed in ((first, 1), (second, 2)):
        scenario = started_in(journal).fact.scenario
        assert f"{journal} ({scenario}, seed {seed})" in done.stderr


def test_the_only_run_of_a_folder_is_taken_and_named(tmp_path: Path, capsys) -> None:
    journal, other = a_run(tmp_path, 1), tmp_path / "notes.jsonl"
    other.write_text("{}\n")
    assert one_journal(str(tmp_path), [journal, other]) == journal
    assert f"the only run in {tmp_path}: {journal} (" in capsys.readouterr().err


def test_a_long_start_up_is_said_with_the_metrics_of_outages_in_it(
    run: Run, tmp_path: Path
) -> None:
    journal = AJournal().runs().note("broker-a", TopicCreated("orders", 1, 1, 6, "admin"))
    journal.consumer("billing-1").consumer("billing-2").claimed("billing-1", Q0).at_s(31)
    for node, own in (("billing-1", 1), ("billing-2", 0)):
        journal.passed(node, own, "billing-1", "billing-2", queues=1)
    path = tmp_path / "run.jsonl"
    path.write_bytes(b"\n".join(journal.at_s(60).ends().lines()) + b"\n")
    shown = " ".join(run("explain", str(path), code=None).stdout.split())
    assert "the start-up of billing lasted 31.0 s: outages in it are in startup_overlap_s" in shown


def sentences(count: int) -> tuple[str, ...]:
    """Sentences of a line and a half each."""
    return tuple(f"Sentence {number} {'of a cause ' * 20}ends." for number in range(count))


def causes(count: int) -> UnmetExpectations:
    """Expectations that were not met, each with a cause of its own."""
    return UnmetExpectations(
        unmet=tuple(f"metric {number} was expected" for number in range(count)),
        causes=tuple(
            MetricCause((f"metric {number}",), (f"Cause {number}.", *sentences(3)))
            for number in range(count)
        ),
    )


def paragraphs(lines: list[str]) -> list[str]:
    """The lines below each head, joined."""
    heads = [number for number, line in enumerate(lines) if line.startswith("the cause of")]
    found = []
    for head in heads:
        below = itertools.takewhile(lambda line: line.startswith("  "), lines[head + 1 :])
        found.append(" ".join(line.strip() for line in below))
    return found


def test_a_cause_on_a_narrow_terminal_has_full_lines_and_all_its_words() -> None:
    wide, narrow = (explanation_lines(None, causes(1), [], width=width) for width in (160, 80))
    assert paragraphs(narrow) == paragraphs(wide)
    full = [line for line in narrow if line.startswith("  ")]
    assert all(60 < len(line) <= 80 for line in full[:-1])


def test_a_cause_without_room_for_all_of_it_ends_with_a_sentence_and_says_so() -> None:
    (cut,) = paragraphs(explanation_lines(None, causes(1), [], room=6))
    assert cut == " ".join(["Cause 0.", *sentences(2), "…"])


def test_causes_without_any_room_are_counted() -> None:
    lines = explanation_lines(None, causes(8), [], room=20)
    assert len(lines) <= 20
    shown = len(paragraphs(lines))
    assert lines[-1] == f"no room for {8 - shown} more causes: --json has all of them"
