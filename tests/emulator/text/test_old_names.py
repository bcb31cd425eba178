"""The name of a module from before the move is refused, and the error has the present name."""

from __future__ import annotations

import importlib
import subprocess
import sys

import pytest

from rocketmq_emulator.scenarios.catalog.finding import find, find_question
from rocketmq_emulator.scenarios.files.reading import read_plan
from rocketmq_emulator.scenarios.plan.problems import BadScenario
from rocketmq_emulator.scenarios.plan.strategies import strategy_named
from rocketmq_emulator.scenarios.running.client_runner import BadFunction, function_named
from rocketmq_emulator.text.old_names import MOVED, PACKAGE, PACKAGES, new_name, renamed
from tests.support.paths import ROOT

OLD_LIBRARY = "scenarios.library.ownership"
LIBRARY = "rocketmq_emulator.scenarios.library.rebalancing"
ALLOCATION = "rocketmq_emulator.client.consumer.group.allocation"
A_PLAN = """\
[topics.orders]
queues = 4
[[consumers]]
group = "billing"
topic = "orders"
strategy = "emulator.client.consumer.pinned:mine"
[[programs]]
name = "shop"
run = "scenarios.running.loads:sell"
"""


@pytest.mark.parametrize("old", MOVED)
def test_every_name_of_the_table_is_of_a_module_that_is_there_and_of_none_that_is(old) -> None:
    assert importlib.import_module(f"{PACKAGE}.{MOVED[old]}")
    assert old.partition(".")[0] in PACKAGES
    assert renamed(old) == f"{old} is {PACKAGE}.{MOVED[old]} now"


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("emulator", "rocketmq_emulator"),
        ("emulator.cluster.spec", "rocketmq_emulator.cluster.spec"),
        ("protocol.codes", "rocketmq_emulator.protocol.codes"),
        ("emulator.client.consumer.hand_over", None),
        ("os.path", None),
    ],
)
def test_a_module_that_kept_its_place_has_its_name_below_the_package(old, new) -> None:
    assert new_name(old) == new


def test_of_a_module_that_is_none_any_more_the_nearest_package_is_named() -> None:
    assert renamed("emulator.client.consumer.hand_over") == (
        "emulator.client.consumer.hand_over is no longer a module: "
        "look below rocketmq_emulator.client.consumer"
    )


def test_a_scenario_of_an_old_module_is_refused_with_its_new_name() -> None:
    for name in ("scenarios.library.ownership:shared", "scenarios.library.ownership"):
        with pytest.raises(
            BadScenario, match=name.replace("scenarios.library.ownership", LIBRARY)
        ):
            find(name)
    with pytest.raises(BadScenario, match=rf"{LIBRARY}:shared now"):
        find_question(f"{OLD_LIBRARY}:shared")


def test_a_file_that_imports_an_old_module_is_refused_with_the_new_name(tmp_path) -> None:
    file = tmp_path / "of_before.py"
    file.write_text("from scenarios.recording import (\n    scenario,\n)\n")
    with pytest.raises(BadScenario, match=r"cannot be imported: scenarios\.recording is rocketmq"):
        find(str(file))
    file.write_text("def f():\n    import emulator.client.errors\n\nf()\n")
    with pytest.raises(BadScenario, match=r"is rocketmq_emulator\.errors\.call_errors now"):
        find(str(file))


def test_functions_of_old_modules_in_a_scenario_file_are_refused_with_their_lines() -> None:
    with pytest.raises(BadScenario) as refused:
        read_plan(A_PLAN, "it.toml", {})
    strategy, program = str(refused.value).splitlines()
    assert strategy.startswith(
        "it.toml:6: consumers.strategy: emulator.client.consumer.pinned:mine"
    )
    assert strategy.endswith(f" is {ALLOCATION}:mine now")
    assert program.startswith("it.toml:9: programs.run: scenarios.running.loads:sell is ")
    assert program.endswith("rocketmq_emulator.scenarios.running.client_runner:sell now")


def test_a_strategy_and_a_program_by_an_old_name_are_refused_with_the_new_one() -> None:
    with pytest.raises(ValueError, match=f"{ALLOCATION}:AVG now"):
        strategy_named("emulator.client.consumer.allocation:AVG")
    with pytest.raises(BadFunction, match="client_runner:sell now"):
        function_named("scenarios.running.loads:sell", "a client program")


FOREIGN = """
from rocketmq_emulator.text.old_names import renamed
print([renamed(f"scenarios.{name}") for name in ("library.ownership", "of_mine", "of_mime")])
print([renamed(f"emulator.{name}") for name in ("node", "nod")])
"""


def test_a_package_of_the_user_s_own_with_such_a_name_is_the_user_s(tmp_path) -> None:
    for name in ("scenarios/__init__", "scenarios/of_mine", "scenarios/library/ownership"):
        (tmp_path / f"{name}.py").parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / f"{name}.py").write_text("")
    done = subprocess.run(
        [sys.executable, "-c", FOREIGN], cwd=tmp_path, capture_output=True, check=True, text=True
    )
    own, other = done.stdout.splitlines()
    assert own == "['', '', '']"
    assert "emulator.node is rocketmq_emulator.processes.node now" in other
    assert "emulator.nod is no longer a module: look below rocketmq_emulator" in other


@pytest.mark.parametrize(
    ("module", "new"),
    [
        ("emulator.node", "rocketmq_emulator.processes.node"),
        ("emulator", "rocketmq_emulator"),
        ("emulator.cli.usage", "rocketmq_emulator"),
    ],
)
def test_in_a_checkout_an_old_module_that_is_run_names_the_new_one(module, new) -> None:
    done = subprocess.run(
        [sys.executable, "-m", module], cwd=ROOT, capture_output=True, check=False, text=True
    )
    assert done.returncode == 1
    assert f"import {new} instead of {module}" in done.stderr
