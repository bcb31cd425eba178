"""Scenarios are found by name, by file and by function."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest
from msgspec.structs import replace

from rocketmq_emulator.scenarios.catalog.finding import (
    LIBRARY,
    find,
    has_plan_per_seed,
    in_folder,
    load,
)
from rocketmq_emulator.scenarios.plan.plan import of_release
from rocketmq_emulator.scenarios.plan.problems import BadScenario
from rocketmq_emulator.scenarios.weather.generating import weather
from rocketmq_emulator.scenarios.weather.shape import SHAPES

MINE = """\
from rocketmq_emulator.scenarios import Run, scenario


@scenario
async def mine(run: Run, brokers: int = 2) -> None:
    await run.cluster(brokers=brokers, topics={"orders": 4})
"""


@pytest.mark.parametrize("listed", list(in_folder(LIBRARY)), ids=lambda listed: listed.name)
def test_every_scenario_of_the_library_is_a_plan_that_says_what_it_teaches(listed: object) -> None:
    plan = listed.plan({})  # type: ignore[attr-defined]
    assert plan.name == listed.name  # type: ignore[attr-defined]
    assert plan.title
    assert plan.teaches
    assert plan.expect
    assert load(plan.name) == plan


def test_a_name_of_the_library_is_enough() -> None:
    assert load("broker_dies").title.startswith("A broker dies")
    assert load("read_only").name == "a_broker_turns_read_only"
    with pytest.raises(BadScenario, match="there is no such scenario; did you mean broker_dies"):
        load("broker_dead")


def test_a_python_file_is_a_scenario_of_one_function_or_of_the_named_one(tmp_path: Path) -> None:
    file = tmp_path / "shop_failures.py"
    file.write_text(MINE)
    assert load(str(file), {"brokers": "3"}).cluster.brokers == 3
    assert find(f"{file}:mine").name == "mine"
    assert load("shop_failures:mine").name == "mine"
    with pytest.raises(BadScenario, match="there is no scenario 'min' in it; did you mean mine"):
        find(f"{file}:min")
    more = tmp_path / "more_failures.py"
    more.write_text(MINE + MINE.replace("mine", "yours"))
    with pytest.raises(BadScenario, match="it has several scenarios; name one of ") as caught:
        find(str(more))
    assert str(caught.value).endswith(f"{more}:mine, {more}:yours")


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("import nothing_of_that_name", "cannot be imported: ModuleNotFoundError"),
        ("x = 1", "there is no scenario in it"),
    ],
)
def test_a_file_without_a_scenario_says_why(tmp_path: Path, text: str, why: str) -> None:
    file = tmp_path / "none_here.py"
    file.write_text(text)
    with pytest.raises(BadScenario, match=why):
        find(str(file))


def test_a_file_that_cannot_be_read_is_said(tmp_path: Path) -> None:
    with pytest.raises(BadScenario, match=r"none\.toml: No such file"):
        load(str(tmp_path / "none.toml"))
    with pytest.raises(BadScenario, match=r"none\.py: there is no such file"):
        load(str(tmp_path / "none.py"))
    file = tmp_path / "bytes.toml"
    file.write_bytes(b"\xff\xfe")
    with pytest.raises(BadScenario, match="it is no text in UTF-8"):
        load(str(file))
    with pytest.raises(BadScenario, match="there is no such folder"):
        list(in_folder(tmp_path / "none"))


def test_weather_is_drawn_for_the_release_that_is_asked_for() -> None:
    plan = load("weather", {"seed": 3}, "5.3.3")
    assert plan == load("weather", {"seed": 3, "release": "5.3.3"})
    assert plan.cluster.release == "5.3.3"


def test_another_release_changes_only_the_cluster_of_a_scenario() -> None:
    name = "broker_dies"
    own, other = load(name), load(name, release="4.7.0")
    assert other.cluster.release == "4.7.0"
    assert msgspec.structs.replace(other, cluster=own.cluster) == own
    assert of_release(own, "") is own


@pytest.mark.parametrize("name", SHAPES)
def test_weather_has_the_shape_of_that_name_and_other_parameters_replace_its_fields(name) -> None:
    for more in ({}, {"rate": "7"}):
        plan = load("weather", {"seed": 3, "shape": name, **more}, "5.3.3")
        shape = replace(SHAPES[name], **{field: float(value) for field, value in more.items()})
        assert replace(plan, parameters={}) == weather(3, "5.3.3", shape)


def test_a_shape_that_does_not_exist_is_refused_with_the_nearest_name() -> None:
    with pytest.raises(BadScenario, match=r"no shape 'slave'.*slaves"):
        load("weather", {"shape": "slave"})


def test_a_plan_of_a_shape_is_made_again_from_its_parameters() -> None:
    plan = load("weather", {"seed": 3, "shape": "acting_masters"}, "5.3.3")
    assert load("weather", plan.parameters) == plan


def test_weather_has_a_plan_for_each_seed_unless_it_is_given_one() -> None:
    assert has_plan_per_seed("weather", {"rate": "4"})
    assert not has_plan_per_seed("weather", {"seed": "7"})
    assert not has_plan_per_seed("broker_dies", {})


def test_a_name_without_the_ending_of_its_file_is_answered_with_the_file(
    tmp_path, monkeypatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("s2.py").write_text("")
    Path("broker_dies.toml").write_text("")
    for name, file in (("s2", "s2.py"), ("broker_die", "broker_dies.toml")):
        with pytest.raises(BadScenario, match=f"did you mean the file {file}"):
            find(name)


def test_a_folder_is_answered_with_its_scenarios(tmp_path) -> None:
    with pytest.raises(BadScenario, match="it is a folder, and has no scenario"):
        find(str(tmp_path))
    (tmp_path / "a.toml").write_text("")
    (tmp_path / "b.py").write_text("")
    with pytest.raises(BadScenario, match=r"name one of its scenarios: .*/a\.toml, .*/b\.py"):
        find(str(tmp_path))
