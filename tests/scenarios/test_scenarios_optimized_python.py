"""``python``, ``-O`` (no assertions) and ``-OO`` (also no docstrings) write the same.

``-OO`` removes docstrings from the code, and they are the titles in journals, the help of
commands and the text of pages.
"""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.paths import ROOT, SUPPORT

PROGRAM = SUPPORT / "scenarios" / "texts_of_runs.py"
PACKAGES = [
    "protocol",
    "emulator",
    "scenarios",
    "pipeline",
    "pyspark_rocketmq",
]
OURS = [*PACKAGES, "docs", "tools", "benchmarks", "examples"]
WITHOUT_EFFECT = frozenset(
    ["hasattr", "isinstance", "getattr", "len", "set", "map", "tuple", "keys", "dir", "all"]
)


def output_of(*words: str | Path) -> str:
    env = {**os.environ, "PYTHONPATH": str(ROOT), "TERM": "dumb", "COLUMNS": "80"}
    command = [sys.executable, *words]
    return subprocess.run(command, env=env, stdout=subprocess.PIPE, text=True, check=True).stdout


def test_journals_pages_and_help_are_the_same_with_and_without_docstrings() -> None:
    plain, without_asserts, without_docstrings = (
        output_of(*flags, PROGRAM).splitlines() for flags in ((), ("-O",), ("-OO",))
    )
    assert without_asserts == plain
    assert without_docstrings == plain
    assert [line for line in plain if ": finished, " in line] == plain[-2:]


@pytest.mark.parametrize(
    ("decorator", "printed"),
    [
        ("@scenario", "has removed the docstring of f, and its source is not here: give"),
        ("@scenario(title='A title', teaches='a lesson')", "A title; a lesson"),
        ("@question", "has removed the docstring of f, and its source is not here"),
    ],
)
def test_a_function_without_source_is_refused_or_brings_its_texts(decorator, printed) -> None:
    argument = "seed" if decorator == "@question" else "run"
    kind = "def" if decorator == "@question" else "async def"
    text = f"{decorator}\n{kind} f({argument}):\n    'Its title.'\n    run.topic('T')"
    program = f"""
from rocketmq_emulator.scenarios.recording.scenario import scenario
from rocketmq_emulator.scenarios.catalog.questions import question
names = {{"scenario": scenario, "question": question}}
try:
    exec({text!r}, names)
except TypeError as error:
    print(error)
else:
    plan = names["f"].plan()
    print(f"{{plan.title}}; {{plan.teaches}}")
"""
    assert printed in output_of("-OO", "-c", program)


def calls_in(statement: ast.Assert) -> list[str]:
    """The functions that *statement* calls: the last part of each name."""
    called = [node.func for node in ast.walk(statement.test) if isinstance(node, ast.Call)]
    return [getattr(each, "attr", getattr(each, "id", "?")) for each in called]


def has_effect(node: ast.AST) -> bool:
    if not isinstance(node, ast.Assert):
        return False
    inner = [each for each in ast.walk(node.test) if isinstance(each, ast.NamedExpr | ast.Await)]
    return bool(inner) or not WITHOUT_EFFECT.issuperset(calls_in(node))


def test_no_assertion_of_ours_does_anything_but_look() -> None:
    files = [path for folder in OURS for path in sorted((ROOT / folder).rglob("*.py"))]
    ours = [path for path in files if not path.name.startswith("test_")]  # some examples are tests
    assert len(ours) > 500
    found = [
        f"{path.relative_to(ROOT)}:{node.lineno}"
        for path in ours
        for node in ast.walk(ast.parse(path.read_text()))
        if has_effect(node)
    ]
    assert found == []
