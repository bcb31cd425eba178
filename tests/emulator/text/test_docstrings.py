"""Docstrings read from the source equal those that Python has: titles, help and pages use them."""

from __future__ import annotations

import sys
from functools import wraps

import pytest

from rocketmq_emulator.checks.judging.table import CHECKERS
from rocketmq_emulator.cluster.fault_values import FAULTS
from rocketmq_emulator.cluster.world import VERBS, World
from rocketmq_emulator.facts import all_facts
from rocketmq_emulator.scenarios.catalog.finding import LIBRARY, in_folder, load
from rocketmq_emulator.text.docstrings import NoSource, docstring_in_source, docstring_of


def things() -> list[object]:
    kinds = [*all_facts(), *CHECKERS.values(), *FAULTS.values()]
    modules = sorted({kind.__module__ for kind in kinds})
    functions = [getattr(World, verb) for verb in VERBS]
    return [*kinds, *(sys.modules[name] for name in modules), *functions]


def test_the_source_has_the_docstring_of_every_fact_checker_fault_and_verb() -> None:
    for thing in things():
        assert docstring_in_source(thing) == docstring_of(thing), thing
        assert docstring_in_source(thing), thing


def kept(function):
    @wraps(function)
    def called() -> None:
        """Of the wrapper."""

    return called


def test_a_decorated_function_has_its_own_docstring_and_not_that_of_its_wrapper() -> None:
    @kept
    def one() -> None:
        """The first."""

    def two() -> None:
        pass

    assert docstring_in_source(one) == docstring_of(one) == "The first."
    assert docstring_in_source(two) == docstring_of(two) == ""


def test_two_functions_of_one_name_have_their_own_docstrings() -> None:
    def made(is_first: bool):
        if is_first:

            def same() -> None:
                """One."""
        else:

            def same() -> None:
                """Other."""

        return same

    assert [docstring_in_source(made(each)) for each in (True, False)] == ["One.", "Other."]


def test_without_source_nobody_knows_what_minus_oo_has_removed() -> None:
    names: dict[str, object] = {}
    exec(compile("def told():\n    'A title.'", "<nowhere>", "exec"), names)  # noqa: S102
    assert docstring_of(names["told"]) == "A title."
    with pytest.raises(NoSource, match=r"has removed the docstring of told, and its source is n"):
        docstring_in_source(names["told"])


def test_every_scenario_of_the_library_has_a_title() -> None:
    assert [found.name for found in in_folder(LIBRARY) if not load(found.name).title] == []
