"""Every claim on a release has its evidence, true to its constant and to the test it names."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

import pytest

from docs.generate.evidence import (
    EVIDENCE,
    PAGE,
    Behaviour,
    Row,
    behaviours_text,
    constants,
    counts_text,
    sentences_text,
    table,
)
from docs.generate.sections import with_section
from emulator.releases import KNOWN_RELEASES, Release

ROOT = Path(__file__).parent.parent
TAGGED = [release for release in KNOWN_RELEASES if release != "4.5.0"]  # which has no tag
TABLE = table()
BEHAVIOURS = pytest.mark.parametrize("row", TABLE.behaviour, ids=lambda row: row.constant)
TEXTS = [*(ROOT / "docs").glob("*.md"), *(ROOT / "docs/studies").glob("*.md")]
TEXTS += [path for path in (ROOT / "scenarios/library").iterdir() if path.is_file()]
A_RELEASE = re.compile(r"\b[45]\.(\d\.\d|x|\d)\b")
ROWS: list[Row] = [*TABLE.behaviour, *TABLE.sentence]


@cache
def names_in(path: str) -> set[str]:
    text = (ROOT / path).read_text()
    return set(re.findall(r"^(?:async )?def (test_\w+)", text, re.MULTILINE))


def releases_in(row: Row, side: int) -> list[str]:
    found = [EVIDENCE.fullmatch(pair[side]) for pair in row.sides()]
    assert all(found), f"not 'tag Class.method: what it does': {row.sides()}"
    return [match["release"] for match in found if match]


def test_every_constant_has_one_row_and_every_row_a_constant() -> None:
    assert sorted(row.constant for row in TABLE.behaviour) == sorted(constants())


@BEHAVIOURS
def test_the_release_of_a_row_is_that_of_its_constant(row: Behaviour) -> None:
    ends = [str(release) for release in constants()[row.constant].releases]
    assert releases_in(row, 1) == ends


@BEHAVIOURS
def test_what_was_before_is_shown_in_the_release_just_before(row: Behaviour) -> None:
    if row.shown:
        before = [TAGGED[TAGGED.index(release) - 1] for release in releases_in(row, 1)]
        assert releases_in(row, 0) == before


def test_sentences_name_constants_that_exist_and_evidence_of_releases_that_exist() -> None:
    for row in TABLE.sentence:
        assert set(row.rests_on) <= constants().keys(), row.claim
        assert row.rests_on or row.sides() or not row.shown, f"no evidence: {row.claim}"
        assert set(releases_in(row, 0)) | set(releases_in(row, 1)) <= set(TAGGED), row.claim
        assert (ROOT / row.place).exists(), row.place


def test_every_page_and_scenario_that_names_a_release_has_a_row_or_claims_nothing() -> None:
    names_one = {
        str(path.relative_to(ROOT)) for path in TEXTS if A_RELEASE.search(path.read_text())
    }
    told = {row.place for row in TABLE.sentence}
    assert not told & TABLE.without_claims.keys()
    assert sorted(names_one - told - TABLE.without_claims.keys() - {"docs/evidence.md"}) == []


def test_every_test_that_is_named_exists() -> None:
    named = [row.test.split("::") for row in ROWS if row.test]
    assert [(path, name) for path, name in named if name not in names_in(path)] == []


def test_what_is_not_shown_says_why() -> None:
    assert [row.claim for row in ROWS if row.shown == bool(row.why)] == []


def test_no_cell_breaks_its_table() -> None:
    cells = [text for row in ROWS for text in (row.claim, row.why, *sum(row.sides(), ()))]
    assert [text for text in cells if "|" in text or "\n" in text] == []


def test_the_page_of_evidence_matches_the_table() -> None:
    page = PAGE.read_text()
    for name, text in (
        ("counts", counts_text()),
        ("behaviours", behaviours_text()),
        ("sentences", sentences_text()),
    ):
        assert with_section(page, name, text) == page, "run make page"


def test_each_release_is_known_once_and_in_order() -> None:
    assert sorted(KNOWN_RELEASES, key=Release.parse) == list(KNOWN_RELEASES)
