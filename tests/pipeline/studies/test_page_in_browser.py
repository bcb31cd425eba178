"""A study's page in a browser; ``Browser.tell`` fails on console errors and network requests."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from rocketmq_emulator.pipeline.studies.page import write_study_page
from tests.support.pipeline.studies_by_hand import HOSTILE, a_study

pytestmark = pytest.mark.sdk

PLOTS = ("curves", "boxes", "heat", "changes", "outcomes")
MARKS = (".scatterlayer .trace", ".boxes", ".hm image", ".barlayer .point")
CIRCLE = (
    "rmqemu run a_story --seed {} --set 'why=it'\\''s so' --set queues=8 --set strategy=circle"
)


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> str:
    path: Path = tmp_path_factory.mktemp("study") / "study.html"
    path.write_text(write_study_page(a_study()))
    return path.as_uri()


def read(browser, selector: str) -> str:
    return browser.tell("eval", f"document.querySelector({selector!r}).innerText")


def drawn(browser, plot: str) -> int:
    """The number of marks in a plot."""
    marks = ", ".join(f"#{plot} {mark}" for mark in MARKS)
    return browser.tell("eval", f"document.querySelectorAll({marks!r}).length")


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, 390])
def test_every_plot_is_drawn_and_fits_the_screen(browser, page, width, scheme) -> None:
    browser.tell("open", page, width=width, height=900, scheme=scheme)
    assert {plot: drawn(browser, plot) > 0 for plot in PLOTS} == dict.fromkeys(PLOTS, True)
    assert browser.tell("eval", "document.documentElement.scrollWidth") <= width
    assert read(browser, "h1") == f"A story {HOSTILE}"
    assert browser.tell("eval", "document.querySelectorAll('img').length") == 0


def test_a_number_leads_to_its_seed_and_to_the_command_that_replays_it(browser, page) -> None:
    browser.tell("open", page)
    browser.tell("eval", "document.querySelector('#table a[href=\"#cell=2&seed=2\"]').click()")
    assert read(browser, "#seeds-title") == "strategy=circle members=10 release=4.9.7"
    assert "from 3 runs: seeds 1 to 3" in read(browser, "#seeds-text")
    chosen = read(browser, "#seeds tr.chosen code")
    assert chosen == f"{CIRCLE.format(2)} --set members=10 --release 4.9.7"
    browser.tell("click", "#seeds tr.chosen button")
    assert read(browser, "#seeds tr.chosen button") in ("copied", "selected")
    browser.tell("key", "Escape")
    assert browser.tell("eval", "document.querySelector('#seeds').hidden")


def test_runs_that_did_not_pass_are_listed_with_their_reasons(browser, page) -> None:
    browser.tell("open", page)
    browser.tell("click", "#verdicts a")
    assert read(browser, "#seeds-text") == "2 runs did not pass:"
    assert HOSTILE in read(browser, "#seeds-rows")
    assert CIRCLE.format(1) in read(browser, "#seeds-rows")


def test_the_metric_shown_first_is_one_that_varies(browser, tmp_path) -> None:
    study = a_study()
    path = tmp_path / "study.html"
    turned = msgspec.structs.replace(study, metrics=study.metrics[::-1])
    path.write_text(write_study_page(turned))
    browser.tell("open", path.as_uri())
    title = "document.querySelector('#boxes .ytitle').textContent"
    assert browser.tell("eval", title) == "idle (members)"


def test_another_metric_and_another_theme_are_drawn_at_once(browser, page) -> None:
    browser.tell("open", page)
    browser.tell("choose", ["#metric", "1"])
    title = "document.querySelector('#boxes .ytitle').textContent"
    assert browser.tell("eval", title) == "lost (messages)"
    assert browser.tell("eval", "document.querySelector('#changes').hidden")  # no changes
    paper = "getComputedStyle(document.body).backgroundColor"
    light = browser.tell("eval", paper)
    browser.tell("choose", ["#theme", "dark"])
    assert browser.tell("eval", paper) != light
    line = "document.querySelector('#curves .scatterlayer path.js-line').style.stroke"
    assert browser.tell("eval", line) == "rgb(86, 180, 233)"


def test_curves_follow_the_values_that_are_chosen_for_the_other_parameters(browser, page) -> None:
    browser.tell("open", page)
    assert read(browser, "#curves-where") == "members = 2, release = 4.9.7"
    browser.tell("choose", ["#fixed select[data-parameter='1']", "1"])
    assert read(browser, "#curves-where") == "members = 10, release = 4.9.7"
