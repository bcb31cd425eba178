"""The finished studies: pages say what the shipped data say, and their commands can be run."""

from __future__ import annotations

import shlex

import pytest

from docs.generate import study_tables
from docs.generate.studies import PAGES, STUDIES, shipped, with_tables
from scenarios.files.parameters import chosen
from scenarios.finding import find_question, load

DATA_BYTES_MAX = 1_000_000


@pytest.mark.parametrize("name", STUDIES)
def test_the_tables_of_a_study_are_made_from_the_data_that_are_shipped(name) -> None:
    page = (PAGES / f"{name}.md").read_text()
    assert with_tables(page, name) == page, "python -m docs.generate.studies --tables"
    assert set(study_tables.SECTIONS) == set(STUDIES)


def test_the_shipped_data_are_small_and_nothing_else_lies_there() -> None:
    files = {path.name: path.stat().st_size for path in (PAGES / "data").iterdir()}
    assert set(files) == {path.name for path in shipped()}
    assert sum(files.values()) < DATA_BYTES_MAX


@pytest.mark.parametrize("name", STUDIES)
def test_a_page_shows_its_picture_and_the_commands_of_its_sweeps(name) -> None:
    page, study = (PAGES / f"{name}.md").read_text(), STUDIES[name]
    picture = (PAGES / f"{name}.svg").read_text()
    assert f"]({name}.svg)" in page
    assert study.drawing.metric in picture
    assert "http" not in picture.replace("http://www.w3.org", "")
    for key, sweep in study.sweeps.items():
        assert f"rmqemu sweep {sweep.words} --to {key}" in page
        assert f"](data/{key}.csv)" in page


@pytest.mark.parametrize("name", STUDIES)
def test_what_a_study_varies_are_parameters_of_its_scenario(name) -> None:
    for sweep in STUDIES[name].sweeps.values():
        scenario, *options = shlex.split(sweep.words)
        question = find_question(scenario)
        known = question.parameters if question else load(scenario).parameters
        values = [text for option, text in zip(options[::2], options[1::2], strict=True)
                  if option in ("--vary", "--set")]  # fmt: skip
        for text in values:
            name_of, _, given = text.partition("=")
            _, problems = chosen(known, {name_of: given.split(",")[0]})
            assert problems == [], text
