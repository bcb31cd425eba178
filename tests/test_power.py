"""Planted bugs still apply, and those of a sample are found where they were found before."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tools.power.bug import PlaceGone, planted
from tools.power.bugs import BUGS
from tools.power.page import BEGIN, END, PAGE, text_of
from tools.power.rules import RULES, right_rules
from tools.power.running import ROOT, tried

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


def test_the_page_shows_what_was_found() -> None:
    text = Path(PAGE).read_text().partition(BEGIN)[2].partition(END)[0]
    assert text.strip() == text_of(FOUND).strip()
