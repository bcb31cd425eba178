"""The mutation report: names of changes, sorting of results, and the page of findings."""

from __future__ import annotations

from pathlib import Path

import pytest

from tools.mutation import __main__ as driver
from tools.mutation import page, running
from tools.mutation.diffs import Change, change_of, function_of, text_of
from tools.mutation.modules import MODULES
from tools.mutation.records import BEFORE, ROOT, Found, load_found, load_reasons

DIFF = """\
--- emulator/broker/tables/locks.py
+++ emulator/broker/tables/locks.py
@@ -1,5 +1,5 @@
 def _has_lapsed(self, lock, now_ms):
-    return now_ms - lock.renewed_ms > self._lock_ms_max
+    return now_ms - lock.renewed_ms >= self._lock_ms_max
"""
LAPSED = Change(
    "emulator/broker/tables/locks.py",
    "RebalanceLocks._has_lapsed",
    "return now_ms - lock.renewed_ms > self._lock_ms_max"
    " -> return now_ms - lock.renewed_ms >= self._lock_ms_max",
)


def test_a_change_is_named_by_its_text_so_that_it_outlives_moved_lines() -> None:
    mangled = "rocketmq_emulator.broker.tables.locks.xǁRebalanceLocksǁ_has_lapsed__mutmut_7"
    assert Change(LAPSED.file, function_of(mangled), text_of(DIFF)) == LAPSED
    assert change_of(str(LAPSED)) == LAPSED
    assert function_of("emulator.x.x_first_offset__mutmut_12") == "first_offset"


def test_every_module_has_its_files_and_tests() -> None:
    for module in MODULES:
        for path in (*module.files, *module.tests):
            assert (ROOT / path).exists(), f"{module.name}: {path}"


def test_mutmut_is_told_the_files_and_tests_of_the_module(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text((ROOT / "pyproject.toml").read_text())
    for module in MODULES:  # one after the other, in the same copy
        running.configure(tmp_path, module)
        text = (tmp_path / "pyproject.toml").read_text()
        assert text.count("[tool.mutmut]") == 1
        assert all(path in text for path in (*module.files, *module.tests))


def test_results_are_sorted_into_caught_and_alive(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []
    monkeypatch.setattr(running, "_changes", lambda _, names: asked.append(names) or (LAPSED,) * 2)
    found = running._sorted(Path(), {"a": 1, "b": 0, "c": 37, "d": -24, "e": 33, "f": 3})
    assert asked == [["b", "e"]]
    assert (found.caught_by_tests, found.caught_by_types, found.mutants) == (3, 1, 6)
    assert found.share == 2 / 5, "changes refused by mypy do not count"


def test_a_result_that_is_no_verdict_is_an_error() -> None:
    with pytest.raises(running.MutmutFailed, match="2"):
        running._sorted(Path(), {"a": 2})


def test_the_judge_wants_a_reason_for_each_survivor_and_few_of_them(
    capsys: pytest.CaptureFixture[str],
) -> None:
    few, many = Found(99, 0, (LAPSED,)), Found(1, 9, (LAPSED,))
    assert driver._judge({"locks": few}, {LAPSED: "nobody can see it"}) == 0
    assert driver._judge({"locks": few}, {}) == 1
    assert str(LAPSED) in capsys.readouterr().out
    assert driver._judge({"locks": many}, {LAPSED: "nobody can see it"}) == 1
    assert "locks" in capsys.readouterr().out
    driver._judge({}, {LAPSED: "nobody can see it"})
    assert f"No longer survives, remove its reason: {LAPSED}" in capsys.readouterr().out


def test_the_page_says_what_was_found() -> None:
    found, reasons = load_found(), load_reasons()
    text = page.PAGE.read_text()
    assert page.with_findings(text, found, reasons) == text, "run python -m tools.mutation --page"


def test_every_survivor_has_a_reason_and_every_module_its_aim() -> None:
    found, reasons = load_found(), load_reasons()
    alive = {change for one in found.values() for change in one.survivors}
    assert set(reasons) == alive
    assert [name for name, one in found.items() if one.share > page.SHARE_MAX] == []
    assert set(found) == set(load_found(BEFORE)) == {module.name for module in MODULES}
