"""Scenarios are listed, shown and checked before any is run."""

from __future__ import annotations

import json
from pathlib import Path

from typer.testing import CliRunner, Result

from rocketmq_emulator.cli.commands.scenario import app
from rocketmq_emulator.scenarios.catalog.finding import load
from rocketmq_emulator.scenarios.files.reading import read_plan

DARK = """title = "dark"
teaches = "nothing"
lasts = "60s"
topics.orders.queues = 4

[[timeline]]
at = "5s"
power_off = "broker-a"
for = "5s"
"""
BAD = 'topics = { orders = 4 }\n[[load]]\ntopic = "order"\nrate = "9/s"\n'


def said(*words: str) -> Result:
    return CliRunner().invoke(app, words)


def test_the_list_has_title_issue_and_lesson_of_each() -> None:
    (row,) = [
        row for row in json.loads(said("list", "--json").stdout) if row["name"] == "broker_dies"
    ]
    assert row["title"] == "A broker dies while three consumers share eight queues"
    assert row["problem"] == ""
    listed = said("list").stdout
    assert row["teaches"] in listed
    assert all(line == line.rstrip() for line in listed.splitlines()), "no line is padded"


def test_a_folder_of_one_s_own_is_listed_with_what_is_wrong_in_it(tmp_path: Path) -> None:
    (tmp_path / "bad.toml").write_text(BAD)
    (row,) = json.loads(said("list", str(tmp_path), "--json").stdout)
    assert row["name"] == "bad"
    assert "load.topic: there is no topic 'order'; did you mean orders?" in row["problem"]


def test_a_scenario_is_shown_in_any_form() -> None:
    plan = load("a_broker_turns_read_only")
    text = said("show", "a_broker_turns_read_only", "--as", "toml").stdout
    assert read_plan(text, "x.toml") == plan
    assert (
        "async def broker_dies(run: Run)" in said("show", "broker_dies", "--as", "python").stdout
    )
    picture = said("show", "broker_dies").stdout
    assert "kill broker-b" in picture
    assert max(map(len, picture.splitlines())) <= 80


def test_a_good_scenario_passes_the_check() -> None:
    checked = said("check", "broker_dies")
    assert checked.exit_code == 0
    assert checked.stdout == "broker_dies can be run: 1 step, 3 expectations\n"


def test_a_bad_scenario_fails_the_check_with_its_lines(tmp_path: Path) -> None:
    file = tmp_path / "bad.toml"
    file.write_text(BAD)
    checked = said("check", str(file))
    assert checked.exit_code == 2
    assert f"{file}:3: load.topic: there is no topic 'order'" in checked.stderr


SEVERAL = """from rocketmq_emulator.scenarios import Run, scenario

@scenario(title="one", teaches="-")
async def one(run: Run) -> None:
    cluster = await run.cluster(topics={"orders": 4})
    cluster.kill("broker-x")
    await run.sleep(10)

@scenario(title="two", teaches="-")
async def two(run: Run) -> None:
    await run.cluster(topics={"orders": 4})
    await run.sleep(10)

@scenario(title="three", teaches="-")
async def three(run: Run) -> None:
    await run.cluster(topics={"orders": 4})
    await run.mark("the end")
    await run.sleep(10)
"""


def test_the_check_of_a_python_file_checks_each_of_its_scenarios(tmp_path: Path) -> None:
    file = tmp_path / "several_here.py"
    file.write_text(SEVERAL)
    checked = said("check", str(file))
    assert checked.exit_code == 2
    assert checked.stdout == "two can be run: 0 steps, 0 expectations\n"
    assert f"{file}:6: timeline.kill.node: there is no node or group 'broker-x'" in checked.stderr
    assert f"{file}:17: mark takes no time" in checked.stderr
    refused = said("check", str(file), "--set", "members=3")
    assert refused.exit_code == 2
    assert f"name one of {file}:one, {file}:two, {file}:three" in refused.stderr
    assert said("check", f"{file}:two").exit_code == 0


REFUSED = '''"""A scenario that a cluster of processes cannot run."""
from rocketmq_emulator.scenarios import Run, scenario


@scenario
async def refused(run: Run) -> None:
    """A machine loses its power.

    It has programs and a strategy of its own.
    """
    await run.cluster(topics={"orders": 4})
    await run.consumers("billing", topic="orders", strategy="no.such.module:mine")
    run.program("mine", "refused_here:nothing")
    run.load("orders", rate=10)
    await run.sleep(10)
    run.power_off("broker-a")
    await run.sleep(10)
'''


def test_the_check_finds_what_can_be_found_before_a_run(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    file = tmp_path / "refused_here.py"
    file.write_text(REFUSED)
    checked = said("check", str(file), "--world", "processes")
    assert checked.exit_code == 2
    for line, text in {
        12: "consumers.strategy: strategy 'no.such.module:mine': ModuleNotFoundError",
        13: "programs.run: refused_here has no function 'nothing'",
        16: "timeline.power_off: the processes world cannot do power_off",
    }.items():
        assert f"{file}:{line}: {text}" in checked.stderr


def test_the_check_of_a_file_names_its_lines_for_the_world_too(tmp_path: Path) -> None:
    file = tmp_path / "dark.toml"
    file.write_text(DARK)
    assert said("check", str(file)).exit_code == 0
    checked = said("check", str(file), "--world", "embedded")
    assert checked.exit_code == 2
    assert f"{file}:8: timeline.power_off: the embedded world cannot do" in checked.stderr


def test_words_that_make_no_sense_are_bad_use() -> None:
    for words, why in {
        ("check", "broker_dies", "--set", "x"): "--set x: write it as NAME=VALUE",
        ("check", "broker_dies", "--set", "x=1"): "there is no parameter 'x'",
        ("check", "broker_dies", "--world", "flat"): "--world is one of virtual",
        ("show", "broker_dies", "--as", "xml"): "--as is one of timeline, toml, python",
        ("show", "broker_die"): "did you mean broker_dies?",
        ("list", "nowhere"): "nowhere: there is no such folder",
    }.items():
        answer = said(*words)
        assert answer.exit_code == 2, words
        assert why in answer.stderr
