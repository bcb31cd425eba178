"""docs/scenarios.md has every word; its files can be read, its picture and errors are right."""

from __future__ import annotations

import re

import pytest

from docs.generate import scenarios
from docs.generate.sections import with_section
from rocketmq_emulator.scenarios.files.quantities import spelling
from rocketmq_emulator.scenarios.files.reading import read_plan
from rocketmq_emulator.scenarios.plan.plan import Plan
from rocketmq_emulator.scenarios.plan.problems import BadScenario
from rocketmq_emulator.scenarios.report.timeline_picture import timeline_picture

PAGE = scenarios.PAGE.read_text()
FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
BLOCKS = FENCE.findall(PAGE)
FILES = [text for language, text in BLOCKS if language == "toml"]


def the_first_file(*changed: tuple[str, str]) -> Plan:
    text = FILES[0]
    for old, new in changed:
        assert old in text
        text = text.replace(old, new)
    return read_plan(text, "broker_dies.toml")


def test_the_page_has_every_word_and_field() -> None:
    for name, text in scenarios.sections():
        assert with_section(PAGE, name, text) == PAGE, f"{name}: run make page"


def test_the_picture_on_the_page_is_that_of_the_first_file() -> None:
    assert ("text", timeline_picture(the_first_file())) in BLOCKS


def test_the_errors_on_the_page_are_those_of_a_file() -> None:
    with pytest.raises(BadScenario) as caught:
        the_first_file(
            ("members = ", "member = "), ('for = "20s"', "for = 20"), ("broker-b", "broker-c")
        )
    assert ("text", f"{caught.value}\n") in BLOCKS


def test_the_other_files_on_the_page_can_be_read() -> None:
    with_parameters, with_steps, with_spread = FILES[1:]
    assert read_plan(with_parameters, "x.toml", {"members": "5"}).consumers[0].members == 5
    before = FILES[0].partition("[[timeline]]")[0]
    assert len(read_plan(before + with_steps, "x.toml").timeline) == 3
    without_group = before.replace(
        before[before.index("[[consumers]]") : before.index("[[load")], ""
    )
    assert read_plan(without_group + with_spread, "x.toml").consumers[0].start_spread_ms == 20_000


MINIMAL = {  # of each part of a file only the fields that must be given
    "`[topics.NAME]`": ("[topics.orders]", {}),
    "`[[consumers]]`": ("[[consumers]]", {"group": '"billing"', "topic": '"orders"'}),
    "`[[load]]`": ("[[load]]", {"topic": '"orders"', "rate": '"5/s"'}),
    "`[[programs]]`": ("[[programs]]", {"name": '"p"', "run": '"module:function"'}),
    "`[[timeline]]`": ("[[timeline]]", {"mark": '"now"'}),
    "`when`, of a step": ("[timeline.when]", {"kind": '"NodeKilled"'}),
}


def a_minimal_file(without: tuple[str, str] = ("", "")) -> str:
    lines = []
    for part, (head, fields) in MINIMAL.items():
        lines += [head, *(f"{k} = {v}" for k, v in fields.items() if (part, k) != without)]
    return "\n".join(lines)


def fields_that_must_be_given() -> list[tuple[str, str]]:
    found, part = [], ""
    for line in scenarios.fields_text().splitlines():
        part = line.removeprefix("### ") if line.startswith("### ") else part
        if "must be given" in line:
            found.append((part, line.split("`")[1]))
    return found


def test_the_fields_that_must_be_given_and_no_others_must_be_given() -> None:
    assert read_plan(a_minimal_file(), "x.toml").name == "x"
    wanted = fields_that_must_be_given()
    assert set(wanted) - {("`[[consumers]]`", "topics")} == {
        (part, field) for part, (_, fields) in MINIMAL.items() for field in fields
    } - {("`[[timeline]]`", "mark")}
    for part, field in wanted:
        with pytest.raises(BadScenario, match="needs a"):
            read_plan(a_minimal_file(without=(part, field.replace("topics", "topic"))), "x.toml")


def test_every_field_of_a_plan_has_a_row() -> None:
    text = scenarios.fields_text()
    for kind in scenarios.PARTS.values():
        for field in kind.__struct_fields__:
            assert field == "does" or f"`{spelling(field).plain}`" in text
