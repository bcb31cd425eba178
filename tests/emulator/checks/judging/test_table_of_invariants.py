"""The table of client invariants: complete, equal to the existing checkers, and on its page."""

from __future__ import annotations

import re

from docs.generate.invariants import PAGE, held_by_tests, invariants_text
from docs.generate.sections import with_section
from rocketmq_emulator.checks.judging.invariants import INVARIANTS
from rocketmq_emulator.checks.judging.table import CHECKERS
from rocketmq_emulator.checks.monitors.monitor import Monitor
from rocketmq_emulator.checks.monitors.table import MONITORS


def test_the_table_has_all_61_in_order() -> None:
    assert [row.number for row in INVARIANTS] == list(range(1, 62))


def test_every_invariant_is_judged_or_says_why_not() -> None:
    assert all(row.checkers or row.unseen for row in INVARIANTS)
    assert {name for row in INVARIANTS for name in row.checkers} <= CHECKERS.keys()


def invariants_of(kind: type[Monitor]) -> set[int]:
    """Client invariants of a monitor; some monitors judge other rules, of brokers or sends."""
    return set(getattr(kind, "invariants", ()))


def test_every_monitor_stands_at_the_invariants_it_names() -> None:
    table = {name: {row.number for row in INVARIANTS if name in row.checkers} for name in MONITORS}
    assert table == {name: invariants_of(kind) for name, kind in MONITORS.items()}


def test_the_rule_of_a_monitor_names_its_invariants() -> None:
    unnamed = {
        name: invariants_of(kind) - {int(found) for found in re.findall(r"\b\d+\b", kind.rule)}
        for name, kind in MONITORS.items()
    }
    assert {name: numbers for name, numbers in unnamed.items() if numbers} == {}


def test_what_facts_do_not_show_is_held_by_tests_of_the_client() -> None:
    assert {row.number for row in INVARIANTS if row.unseen} <= held_by_tests().keys()


def test_the_page_of_invariants_matches_the_table() -> None:
    page = PAGE.read_text()
    assert with_section(page, "invariants", invariants_text()) == page, "run make page"
