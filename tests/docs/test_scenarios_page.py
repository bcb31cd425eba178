"""docs/scenarios.md has every word; its files can be read, its picture and errors are right."""

from __future__ import annotations

import re

import pytest

from docs.generate import scenarios
from docs.generate.sections import with_section
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
    with_parameters, with_steps = FILES[1:]
    assert read_plan(with_parameters, "x.toml", {"members": "5"}).consumers[0].members == 5
    before = FILES[0].partition("[[timeline]]")[0]
    assert len(read_plan(before + with_steps, "x.toml").timeline) == 3
