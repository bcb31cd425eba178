"""Mutants are planted at their own lines, and the judge's findings about them are recorded."""

from __future__ import annotations

import json
from pathlib import Path

from rocketmq_emulator.checks.state.violation import Violation
from rocketmq_emulator.scenarios.plan.result import Unmet
from tests.support.rows_of_runs import a_row
from tools.power.bug import planted
from tools.power.drawing import Mutant, from_json, mutant_of, parts_of
from tools.power.judging import Judged, MutantTree, statement_of
from tools.power.mutant_page import BEGIN, END, load_reasons, sample_of, text_of
from tools.power.mutant_runs import SeedRun, executed, first_seen
from tools.power.mutants import DRAWN, JUDGED
from tools.power.page import PAGE
from tools.power.running import ROOT

DRAWN_MUTANTS = from_json(json.loads(DRAWN.read_text())["modules"])
ROWS = json.loads(JUDGED.read_text())

CODE = """\
class Table:
    def find(self, key):
        if (
            key in self.rows
            and key
        ):
            return None
        for row in self.rows:
            try:
                return row[key]
            except KeyError:
                return None
        return None
"""
FIND = CODE.partition("\n")[2]


def a_mutant(old: str, new: str) -> Mutant:
    return Mutant("m", "table.py", "Table.find", old, new, f"{old} -> {new}")


def a_run(seed: int, *, rules: tuple[str, ...] = (), **fields: object) -> SeedRun:
    violations = tuple(
        Violation(checker=rule, rule="", what="", mono_us=0, node="", entries=()) for rule in rules
    )
    row = a_row(seed, violations=violations, **{"verdict": "failed", **fields})
    return SeedRun(seed, "4.9.7", row, "other")


HEALTHY = {str(seed): {"verdict": "passed", "rules": [], "journal": "same"} for seed in (1, 2, 3)}
UNMET = (Unmet(expected="backlog == 0", actual=1.0),)


# Places of mutants ------------------------------------------------------------------------------


def test_a_changed_line_that_stands_twice_is_kept_with_lines_around_it(tmp_path: Path) -> None:
    (tmp_path / "table.py").write_text(CODE)
    before, _, after = FIND.rpartition("None")
    mutant = mutant_of("m", "table.py", "Table.find", FIND, f"{before}0{after}")
    assert mutant.change == "return None -> return 0"
    assert planted(mutant.as_bug(), tmp_path) == CODE[::-1].replace("enoN", "0", 1)[::-1]


def test_the_statement_of_a_mutant_is_the_innermost_one_and_of_a_compound_one_its_head() -> None:
    assert statement_of(a_mutant("row[key]", "row[None]"), CODE) == {10}
    assert statement_of(a_mutant("and key\n", "or key\n"), CODE) == {3, 4, 5, 6}
    assert statement_of(a_mutant("row in self.rows", "row in None"), CODE) == {8}
    assert statement_of(a_mutant("KeyError", "None"), CODE) == {9, 10, 11, 12}
    assert statement_of(a_mutant("(self, key)", "(self)"), CODE) == set(range(2, 14))


def test_lines_that_a_run_executes_are_told_and_no_others() -> None:
    file = "emulator/nameserver/state/routes.py"
    lines = (ROOT / file).read_text().splitlines()
    (found,) = executed(1, [str(ROOT / file)]).values()
    assert any("given.fact(first=first" in lines[line - 1] for line in found)
    assert not any("WritePermChanged" in lines[line - 1] for line in found)


def test_modules_get_their_parts_by_their_mutants_and_all_are_drawn() -> None:
    assert sum(parts_of(300).values()) == 300
    assert {name: len(one.killed) for name, one in DRAWN_MUTANTS.items()} == parts_of(300)


# Findings of the judge --------------------------------------------------------------------------


def test_a_rule_that_objects_ends_the_search_and_differing_journals_are_counted() -> None:
    passed = a_run(1, verdict="passed")._replace(journal="same")
    seen = first_seen(iter([passed, a_run(2, rules=("lost",)), a_run(3)]), HEALTHY)
    assert (seen["how"], seen["seed"], seen["rules"], seen["differ"]) == ("rule", 2, ["lost"], 1)


def test_an_expectation_that_is_not_met_is_no_find_and_a_later_rule_is() -> None:
    unmet = a_run(1, unmet=UNMET)
    seen = first_seen(iter([unmet, a_run(2, verdict="passed")]), HEALTHY)
    assert (seen["how"], seen["unmet"]["seed"]) == ("", 1)
    seen = first_seen(iter([unmet, a_run(2, rules=("lost",))]), HEALTHY)
    assert (seen["how"], seen["seed"]) == ("rule", 2)


def test_a_run_without_an_answer_is_told_apart_from_an_objection() -> None:
    seen = first_seen(iter([a_run(1, verdict="error")]), HEALTHY)
    assert (seen["how"], seen["seed"]) == ("error", 1)


def test_a_seed_that_does_not_pass_without_a_mutant_shows_nothing() -> None:
    healthy = HEALTHY | {"1": {"verdict": "failed", "rules": ["lost"], "journal": "same"}}
    seen = first_seen(iter([a_run(1, rules=("lost",)), a_run(2, rules=("places",))]), healthy)
    assert seen["seed"] == 2


def test_a_mutant_is_run_again_with_other_code_and_longer_if_it_was_not_seen(
    tmp_path: Path,
) -> None:
    mutant, judged = a_mutant("row", "key"), Judged(tmp_path / "mutants.json")
    judged.keep(mutant, {"version": "now", "how": "", "searched": 50})
    known = Judged(tmp_path / "mutants.json")
    assert known.has(mutant, "now", 50)
    assert not known.has(mutant, "now", 51)
    assert not known.has(mutant, "later", 50)
    judged.keep(mutant, {"version": "now", "how": "rule", "searched": 50})
    assert Judged(tmp_path / "mutants.json").has(mutant, "now", 51)


def test_a_seen_mutant_is_seen_again_and_the_tree_is_left_as_it_was() -> None:
    every = [mutant for one in DRAWN_MUTANTS.values() for mutant in one.killed]
    seen = [each for each in every if ROWS.get(each.key, {}).get("rules")]
    mutant = next(each for each in seen if ROWS[each.key]["seed"] == 1)
    with MutantTree() as tree:
        healthy = tree.asked({"seeds": [1]})
        lines = tree.asked({"seeds": [1], "lines_of": [mutant.file]})
        row = tree.row_of(mutant, lines, healthy)
        assert (row["seed"], row["rules"]) == (1, ROWS[mutant.key]["rules"])
        assert tree.asked({"seeds": [1]}) == healthy


# The page ---------------------------------------------------------------------------------------


def test_the_page_shows_what_became_of_the_mutants() -> None:
    text = PAGE.read_text().partition(BEGIN)[2].partition(END)[0]
    assert text.strip() == text_of(DRAWN_MUTANTS, ROWS, load_reasons()).strip()


def test_each_mutant_of_the_sample_has_a_reason_why_no_rule_objects() -> None:
    keys = {mutant.key for mutant in sample_of(DRAWN_MUTANTS, ROWS)}
    assert keys <= set(load_reasons())
