"""Every claim about a release has evidence that agrees with its constant and names its test."""

from __future__ import annotations

import ast
import re
import tomllib
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from docs.generate.evidence import (
    EVIDENCE,
    PAGE,
    Behaviour,
    Row,
    Sentence,
    behaviours_text,
    constants,
    counts_text,
    sentences_text,
    table,
)
from docs.generate.sections import with_section
from rocketmq_emulator.settings.releases import KNOWN_RELEASES, Release
from tests.support.paths import ROOT

TAGGED = [release for release in KNOWN_RELEASES if release != "4.5.0"]  # 4.5.0 has no tag
TABLE = table()
BEHAVIOURS = pytest.mark.parametrize("row", TABLE.behaviour, ids=lambda row: row.constant)
LIBRARY = ROOT / "scenarios/library"
STUDIES = ROOT / "docs/studies"
PAGES = [ROOT / "README.md", *(ROOT / "docs").glob("*.md"), *STUDIES.glob("*.md")]
TEXTS = [*PAGES, *(path for path in LIBRARY.iterdir() if path.is_file())]
A_RELEASE = re.compile(  # but no quantity, no setting of a strategy, no version of Spark
    r"(?<![\d.,])(?<!_auto\()(?<!Spark )"
    r"[45]\.(?:\d\.\d|x|\d)(?![\d%]|\.\d| ±| (?:s|ms|min)\b)"
)
OF_EVERY_RELEASE = re.compile(r"\bno release\b|\bnever changed\b", re.IGNORECASE)
PROFILES = {"4.9.7", "5.3.3"}  # pages name them as releases that are emulated or were run
ROWS: list[Row] = [*TABLE.behaviour, *TABLE.sentence]


@cache
def names_in(path: str) -> set[str]:
    text = (ROOT / path).read_text()
    return set(re.findall(r"^(?:async )?def (test_\w+)", text, re.MULTILINE))


def releases_in(row: Row, side: int) -> list[str]:
    found = [EVIDENCE.fullmatch(pair[side]) for pair in row.ends()]
    assert all(found), f"not in the form 'tag Class.method: behaviour': {row.ends()}"
    return [match["release"] for match in found if match]


def last_tag_before(text: str) -> str:
    release = Release.parse(text)
    return [tag for tag in TAGGED if Release.parse(tag) < release][-1]


def test_every_constant_has_one_row_and_every_row_a_constant() -> None:
    assert sorted(row.constant for row in TABLE.behaviour) == sorted(constants())


@BEHAVIOURS
def test_the_release_of_a_row_is_that_of_its_constant(row: Behaviour) -> None:
    ends = [str(release) for release in constants()[row.constant].releases]
    assert releases_in(row, 1) == ends


@BEHAVIOURS
def test_what_was_before_is_shown_in_the_release_just_before(row: Behaviour) -> None:
    if row.shown:
        before = [last_tag_before(release) for release in releases_in(row, 1)]
        assert releases_in(row, 0) == before


def test_sentences_name_constants_that_exist_and_evidence_of_releases_that_exist() -> None:
    for row in TABLE.sentence:
        assert set(row.rests_on) <= constants().keys(), row.claim
        assert row.rests_on or row.ends() or not row.shown, f"no evidence: {row.claim}"
        assert set(releases_in(row, 0)) | set(releases_in(row, 1)) <= set(TAGGED), row.claim
        assert (ROOT / row.place).exists(), row.place


def test_every_page_and_scenario_that_names_a_release_has_a_row_or_claims_nothing() -> None:
    names_one = {
        str(path.relative_to(ROOT)) for path in TEXTS if A_RELEASE.search(path.read_text())
    }
    told = {row.place for row in TABLE.sentence}
    assert not told & TABLE.without_claims.keys()
    assert sorted(names_one - told - TABLE.without_claims.keys() - {"docs/evidence.md"}) == []


def texts_of(path: Path) -> Iterator[tuple[str, str]]:
    """The scenarios of the file *path*, each with its texts: docstring, title, teaching."""
    if path.suffix == ".toml":
        scenario = tomllib.loads(path.read_text())
        yield path.stem, f"{scenario['title']} {scenario['teaches']}"
        return
    tree = ast.parse(path.read_text())
    yield "", ast.get_docstring(tree) or ""
    for node in tree.body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            given = [
                word.value
                for each in node.decorator_list
                for word in ast.walk(each)
                if isinstance(word, ast.Constant) and isinstance(word.value, str)
            ]
            yield node.name, " ".join([ast.get_docstring(node) or "", *given])


SAID = [
    (str(path.relative_to(ROOT)), name, text)
    for path in sorted(LIBRARY.glob("*.*"))
    for name, text in texts_of(path)
    if A_RELEASE.search(text) or OF_EVERY_RELEASE.search(text)
]


def rows_of(place: str, scenario: str = "") -> list[Sentence]:
    begin = f"{scenario}: " if scenario else ""
    return [row for row in TABLE.sentence if row.place == place and row.claim.startswith(begin)]


def releases_of(row: Sentence) -> set[str]:
    """Releases in the claim or the evidence of *row*, and those of the constants it rests on."""
    said = " ".join([row.claim, row.why, *sum(row.ends(), ())])
    ends = {str(end) for name in row.rests_on for end in constants()[name].releases}
    return {*A_RELEASE.findall(said), *ends}


def releases_on(page: Path) -> set[str]:
    lines = page.read_text().splitlines()
    if page.parent == STUDIES:  # tables of studies contain numbers
        lines = [line for line in lines if not line.startswith("|")]
    return set(A_RELEASE.findall("\n".join(lines)))


@pytest.mark.parametrize(("place", "scenario", "text"), SAID, ids=lambda text: text[:40])
def test_what_a_scenario_says_of_releases_is_a_claim_of_its_own(
    place: str, scenario: str, text: str
) -> None:
    claims = " ".join(row.claim for row in rows_of(place, scenario))
    assert set(A_RELEASE.findall(text)) <= set(A_RELEASE.findall(claims))
    assert bool(OF_EVERY_RELEASE.search(text)) <= bool(OF_EVERY_RELEASE.search(claims))


def test_claims_of_the_library_begin_with_a_scenario_of_their_module() -> None:
    in_library = [row for row in TABLE.sentence if row.place.startswith("scenarios/library/")]
    known = {row.place: dict(texts_of(ROOT / row.place)) for row in in_library}
    strange = [
        row.claim for row in in_library if row.claim.partition(": ")[0] not in known[row.place]
    ]
    assert strange == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_a_page_names_no_release_without_a_row(page: Path) -> None:
    place = str(page.relative_to(ROOT))
    if place in TABLE.without_claims or place == "docs/evidence.md":
        return
    shown = set[str]().union(*(releases_of(row) for row in rows_of(place)))
    assert sorted(releases_on(page) - shown - PROFILES) == []


def test_no_claim_names_a_release_that_its_place_does_not() -> None:
    """Fails if a text was changed and its row was not."""
    stale = []
    for row in TABLE.sentence:
        place = ROOT / row.place
        scenario = row.claim.partition(": ")[0]
        text = place.read_text() if place.suffix == ".md" else dict(texts_of(place))[scenario]
        if not set(A_RELEASE.findall(row.claim)) <= set(A_RELEASE.findall(text)):
            stale.append(row.claim)
    assert stale == []


def test_every_test_that_is_named_exists() -> None:
    named = [row.test.split("::") for row in ROWS if row.test]
    assert [(path, name) for path, name in named if name not in names_in(path)] == []


def test_what_is_not_shown_says_why() -> None:
    assert [row.claim for row in ROWS if row.shown == bool(row.why)] == []


def test_no_cell_breaks_its_table() -> None:
    cells = [text for row in ROWS for text in (row.claim, row.why, *sum(row.ends(), ()))]
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
