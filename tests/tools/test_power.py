"""Planted bugs still apply; those of a sample are found at the same seeds as before."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tools.power.bug import PlaceGone, planted
from tools.power.bugs import BUGS
from tools.power.page import BEGIN, END, PAGE, is_found, load_reasons, text_of
from tools.power.rules import RULES, right_rules
from tools.power.running import ROOT, Healthy, Results, Search, tried, with_shrinking

FOUND = json.loads((ROOT / "tools" / "power" / "found.json").read_text())
SAMPLE = (  # of ten parts; each is found in the small shape within a few seeds
    "acknowledge_and_not_store",
    "delay_of_level_before",
    "failed_heartbeat_keeps_the_lock",
    "lock_reply_names_all_queues",
    "offset_in_memory_is_never_raised",
    "remainder_has_no_owner",
    "selected_send_is_retried_elsewhere",
    "every_retry_has_the_first_delay_level",
    "wake_first_held_pull_only",
    "broadcast_members_share_queues",
)


@pytest.mark.parametrize("name", BUGS)
def test_a_planted_bug_still_applies(name: str) -> None:
    assert planted(BUGS[name], ROOT) != (ROOT / BUGS[name].file).read_text()


def test_a_bug_whose_place_is_gone_is_named() -> None:
    bug = BUGS["remainder_has_no_owner"]
    for gone in (
        bug._replace(file="emulator/nowhere.py"),
        bug._replace(function="nobody"),
        bug._replace(old="text that nobody wrote"),
        bug._replace(new="return ("),
    ):
        with pytest.raises(PlaceGone, match=bug.name):
            planted(gone, ROOT)


def test_every_part_has_two_bugs_and_rules_by_which_they_are_found() -> None:
    parts = [bug.part for bug in BUGS.values()]
    assert set(parts) == RULES.keys()
    assert all(parts.count(part) >= 2 for part in RULES)
    assert len(BUGS) >= 40


@pytest.mark.parametrize("name", SAMPLE)
def test_a_bug_is_found_at_the_seed_at_which_it_was_found(name: str) -> None:
    bug, seed = BUGS[name], FOUND[name]["small"]["seed"]
    found = tried(bug, ["small"], range(seed, seed + 1), shrinks=False)["small"]
    assert found.get("seed") == seed, found
    assert right_rules(bug.part, found["rules"])


def test_a_planted_text_that_raises_finds_nothing_and_the_error_is_told() -> None:
    bug = BUGS["unlock_skips_dropped_queues"]
    stale = bug._replace(new=bug.new.replace("process_queue_table", "renamed"))
    assert stale != bug
    found = tried(stale, ["small"], range(12, 13), shrinks=False)["small"]
    assert found["seed"] is None
    assert "has no attribute 'renamed'" in found["error"]


def test_the_page_shows_what_was_found() -> None:
    text = Path(PAGE).read_text().partition(BEGIN)[2].partition(END)[0]
    assert text.strip() == text_of(FOUND, load_reasons()).strip()


def test_each_bug_that_is_not_found_has_a_reason_and_no_other_has() -> None:
    assert set(load_reasons()) == {name for name, row in FOUND.items() if not is_found(row)}


# Known results ----------------------------------------------------------------------------------

BUG = BUGS["remainder_has_no_owner"]


def a_search(seeds_max: int, *, shrinks: bool = False) -> Search:
    return Search(seeds_max, Healthy(Path("nowhere.json")), shrinks=shrinks)


def a_row(**small: object) -> dict[str, object]:
    found = {"seed": 1, "rules": ["shares_add_up"]}
    return {"small": {**found, **small}, "default": found, "library": {}}


def test_a_longer_search_goes_on_with_a_bug_that_was_not_found() -> None:
    unfound = a_row(seed=None, rules=[], searched=12)
    assert a_search(12).is_done(unfound)
    assert not a_search(13).is_done(unfound)


def test_a_bug_is_not_done_before_the_library_was_run() -> None:
    known = a_row()
    assert a_search(12).is_done(known)
    del known["library"]
    assert not a_search(12).is_done(known)


def test_a_found_bug_is_done_when_it_was_shrunk_if_that_is_wanted() -> None:
    assert not a_search(12, shrinks=True).is_done(a_row())
    shrunk = a_row(steps=2) | {"default": {"seed": 1, "steps": 3}}
    assert a_search(12, shrinks=True).is_done(shrunk)


def test_what_shrinking_came_to_is_kept_while_the_same_rules_object_to_the_same_seed() -> None:
    before = {"seed": 3, "rules": ["lost"], "steps": 2, "shrink_runs": 9, "explained": None}
    found = {"seed": 3, "rules": ["lost"], "reason": "lost: …"}
    assert with_shrinking(found, before) == {**before, **found}
    assert with_shrinking({**found, "seed": 4}, before) == {**found, "seed": 4}
    assert with_shrinking({**found, "rules": ["places"]}, before)["rules"] == ["places"]
    assert "steps" not in with_shrinking({**found, "rules": ["places"]}, before)
    assert with_shrinking({**found, "steps": 1}, before)["steps"] == 1


def test_results_of_other_code_are_not_known_and_a_later_run_keeps_their_shrinking(
    tmp_path: Path,
) -> None:
    path = tmp_path / "found.json"
    Results(path).keep(BUG, "old", a_row(steps=2))
    assert Results(path).of(BUG, "new") == {}
    later = Results(path)
    later.keep(BUG, "new", a_row())
    assert Results(path).of(BUG, "new")["small"]["steps"] == 2


# The page ---------------------------------------------------------------------------------------


def the_line_of(row: dict[str, object]) -> str:
    text = text_of({BUG.name: row}, {BUG.name: "it is too small"})
    return next(line for line in text.splitlines() if line.startswith(f"| {BUG.part}"))


def test_a_bug_that_only_the_library_finds_is_found_and_names_the_scenario() -> None:
    none = {"seed": None, "unmet": {}, "searched": 12}
    library = {"a_member_dies": ["shares_add_up"], "a_member_joins": ["liveness"]}
    row = {"small": none, "default": none, "library": library}
    assert is_found(row)
    assert "| `shares_add_up`, liveness | none in 12, none in 12 |" in the_line_of(row)
    assert "a_member_dies and 1 more" in the_line_of(row)
    assert "1 of them only by the library" in text_of({BUG.name: row}, {})


def test_an_expectation_alone_finds_nothing_and_the_reason_is_told() -> None:
    none = {"seed": None, "unmet": {"7": ["backlog == 0"]}, "searched": 12}
    row = {"small": none, "default": none, "library": {}}
    assert not is_found(row)
    assert "none in 12 (an expectation at 7)" in the_line_of(row)
    assert f"- {BUG.name}: it is too small" in text_of(
        {BUG.name: row}, {BUG.name: "it is too small"}
    )


@pytest.mark.parametrize(
    ("rule", "others", "said"),
    [
        ("shares_add_up", [], "names the part"),
        ("liveness", ["ownership"], "names it second"),
        ("liveness", ["lost"], "tells liveness"),
    ],
)
def test_explain_names_the_part_if_it_begins_with_a_rule_of_the_part(
    rule: str, others: list[str], said: str
) -> None:
    row = a_row(steps=2, explained={"rule": rule, "others": others})
    assert the_line_of(row).endswith(f"| 2 | {said} |")
