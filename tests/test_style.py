"""Rules of style that the build checks.

A rule is one test over all files, whose failure names the place that breaks it.  Thousands of
small tests, one for each file, would take longer to collect than to run.
"""

from __future__ import annotations

import ast
import itertools
import re
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import typer

from rocketmq_emulator.cli.app import application
from tests.support.paths import ROOT

LINES_MAX, FUNCTION_LINES_MAX = 600, 80  # few files come near; see tools.lengths

BANNED_WORDS = {  # class names with a meaningless suffix, and how to name them instead
    r"\w+Manager": "name it for what it holds",
    r"\w+Helper": "name it for what it does",
    r"\w+Impl": "leave the suffix out",
    r"\w*Utils?": "name the one thing it knows",
}
RETIRED = {  # a word that no name may contain, and its replacement
    "acts": "actions",
    "backstage": "the world's own word",
    "cast": "client specs",
    "crew": "clients, or members",
    "director": "runner",
    "door": "proxy port",
    "doors": "proxy ports",
    "fleet": "run pool",
    "head_start": "start delay",
    "head_starts": "start delays",
    "misfit": "unknown name, or stray record",
    "misfits": "unknown names, or stray records",
    "scene": "cluster state, or combination",
    "scenes": "cluster states, or combinations",
    "seat": "slot",
    "seats": "slots",
    "several": "many, or the number",
    "sides": "ends, of a link",
    "sight": "node view",
    "stage": "environment",
    "stages": "environments, or steps",
    "stories": "runs, or histories",
    "story": "run, or history",
    "telling": "descriptions",
    "theatre": "environment",
    "told": "described, noted, or sent",
    "trial": "run, or try",
    "trials": "runs, or tries",
    "turning": "changes of an expectation",
    "under_way": "in flight, or running",
    "way": "path, or one_way of a call without an answer and of a link",
    "ways": "paths",
}
RETIRED_ALONE = {"parts": "client specs", "part": "client spec"}  # only as a whole name
ONE_WAY = "one_way"  # allowed: a usual word of networking
UNFINISHED = re.compile(r"#.*\b(TODO|FIXME|XXX|HACK|for now)\b")
MACHINE_PATH = re.compile(r"(?<![\w.])/(work|root|home/[a-z]+)/\w")


def sources(*tops: str) -> list[Path]:
    found = [p.relative_to(ROOT) for top in tops for p in sorted((ROOT / top).rglob("*.py"))]
    assert found
    return [path for path in found if "node_modules" not in path.parts]


PACKAGES = sources("protocol", "emulator", "scenarios", "pipeline", "pyspark_rocketmq")
EVERYTHING = [*PACKAGES, *sources("tests", "benchmarks", "tools")]
NAMED_PLAINLY = [*PACKAGES, *sources("benchmarks", "docs", "examples", "tests", "tools")]


@cache
def lines_of(path: Path) -> list[str]:
    return (ROOT / path).read_text().splitlines()


@cache
def nodes_of(path: Path) -> list[ast.AST]:
    """The nodes of a file's syntax tree that the rules read; the module is the first."""
    kinds = ast.Module | ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.Compare
    tree = ast.parse((ROOT / path).read_text())
    return [node for node in ast.walk(tree) if isinstance(node, kinds)]


def test_files_stay_short_enough_to_read() -> None:
    for path in EVERYTHING:
        lines = len(lines_of(path))
        assert lines <= LINES_MAX, f"{path} has {lines} lines: divide it"


def test_files_open_with_their_idea() -> None:
    for path in PACKAGES:
        module = nodes_of(path)[0]
        assert isinstance(module, ast.Module)
        assert ast.get_docstring(module), f"{path} has no docstring"


def test_functions_fit_a_screen() -> None:
    for path in EVERYTHING:
        for node in nodes_of(path):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                size = (node.end_lineno or node.lineno) - node.lineno + 1
                place = f"{path}:{node.lineno} {node.name}"
                assert size <= FUNCTION_LINES_MAX, f"{place}: {size} lines"


def classes() -> list[tuple[Path, ast.ClassDef]]:
    return [(p, node) for p in PACKAGES for node in nodes_of(p) if isinstance(node, ast.ClassDef)]


def test_class_names_have_no_meaningless_suffix() -> None:
    for path, node in classes():
        for pattern, advice in BANNED_WORDS.items():
            assert not re.fullmatch(pattern, node.name), f"{path} {node.name}: {advice}"


def words_of(name: str) -> set[str]:
    """The words of a name, and its pairs of neighbouring words: three for ``HeadStart``."""
    snake = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower().replace("-", "_").strip("_")
    words = snake.replace(ONE_WAY, "oneway").split("_")
    return {*words, *map("_".join, itertools.pairwise(words))}


def advice_on(name: str) -> str:
    """The replacement of a retired word in *name*; "" if it has none."""
    alone = RETIRED_ALONE.get(name.lower().strip("-"), "")
    return alone or next((RETIRED[word] for word in sorted(words_of(name) & RETIRED.keys())), "")


def test_a_retired_word_would_be_found_wherever_it_stands_in_a_name() -> None:
    for name in ("VirtualStage", "head_starts", "_scene_of", "--several", "Parts", "is_under_way"):
        assert advice_on(name), name
    for name in ("is_one_way", "OneWayLink", "_without_parts", "Broadcast", "action", "exact"):
        assert not advice_on(name), name


def test_modules_classes_and_functions_have_no_retired_names() -> None:
    for path in NAMED_PLAINLY:
        for part in (*path.parts[:-1], path.stem):
            assert not advice_on(part), f"{path}: write {advice_on(part)}"
        for node in nodes_of(path):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                if node.name.startswith("test_"):
                    continue  # its name is a sentence
                advice = advice_on(node.name)
                assert not advice, f"{path}:{node.lineno} {node.name}: write {advice}"


def commands(command: Any, name: str = "rmqemu") -> Iterator[tuple[str, Any]]:
    yield name, command
    for word, below in getattr(command, "commands", {}).items():
        yield from commands(below, f"{name} {word}")


def test_commands_and_options_have_no_retired_names() -> None:
    found = list(commands(typer.main.get_command(application())))
    assert len(found) > 30
    for name, command in found:
        for word in (name.split()[-1], *(opt for each in command.params for opt in each.opts)):
            assert not advice_on(word), f"{name}: {word}: write {advice_on(word)}"


WORDS_MAX = 40


def test_the_glossary_is_short_and_has_no_retired_word() -> None:
    text = (
        (ROOT / "CONTRIBUTING.md").read_text().partition("\n## Words\n")[2].partition("\n## ")[0]
    )
    words = re.findall(r"^\| \*\*(.+?)\*\* \|", text, re.MULTILINE)
    assert 20 <= len(words) <= WORDS_MAX
    assert words == sorted(words, key=str.lower)
    for word in words:
        assert not advice_on(word.replace(" ", "_")), word


def test_nothing_is_left_for_later_or_names_a_machine() -> None:
    for path in EVERYTHING:
        for number, line in enumerate(lines_of(path), 1):
            if "re.compile" in line:
                continue
            assert not UNFINISHED.search(line), f"{path}:{number}: {line.strip()}"
            assert not MACHINE_PATH.search(line), f"{path}:{number}: a path of one machine"


MIRRORED = ("protocol", "emulator", "scenarios", "pipeline")


def is_named_for_its_subject(path: Path) -> bool:
    """Whether *path*, a file of tests, is named for a module of its folder, or for the folder."""
    folder = path.relative_to("tests").parent
    modules = [source.stem for source in PACKAGES if source.parent == folder]
    name = path.stem.removeprefix("test_")
    return any(name == word or name.startswith(f"{word}_") for word in (*modules, folder.name))


def test_a_file_of_tests_without_a_module_would_be_found() -> None:
    assert is_named_for_its_subject(Path("tests/emulator/net/test_connection_frame_limits.py"))
    assert is_named_for_its_subject(Path("tests/emulator/broker/test_broker_fuzz.py"))
    assert not is_named_for_its_subject(Path("tests/emulator/net/test_watermarks.py"))


def test_tests_are_found_by_the_name_of_the_module_that_they_test() -> None:
    mirrored = [
        path
        for path in sources("tests")
        if path.parts[1] in MIRRORED and path.name.startswith("test_")
    ]
    assert len(mirrored) > 300
    assert [str(path) for path in mirrored if not is_named_for_its_subject(path)] == []


# Exempt files: the clients for threads and for asyncio have the class names of the trio client.
FACES = ("sync.py", "aio.py", "sync_", "aio_")


def test_no_class_name_stands_twice() -> None:
    places: dict[str, list[str]] = {}
    for path, node in classes():
        if path.name.startswith(FACES):
            continue
        places.setdefault(node.name, []).append(f"{path}:{node.lineno}")
    assert {name: found for name, found in places.items() if len(found) > 1} == {}


RELEASE_CONSTANTS = (Path("emulator/settings/releases.py"), Path("protocol/versions.py"))
A_RELEASE = re.compile(r"(^|_)(release|rules|profile)$")


def release_comparisons(nodes: Iterable[ast.AST]) -> list[tuple[int, str]]:
    """The line and the right side of each comparison of a release with <, <=, > or >=."""
    found = []
    for node in nodes:
        if not isinstance(node, ast.Compare):
            continue
        sides = [node.left, *node.comparators]
        named = [ast.unparse(side).rpartition(".")[2] for side in sides]
        if isinstance(node.ops[0], ast.Lt | ast.LtE | ast.Gt | ast.GtE) and any(
            A_RELEASE.search(name) for name in named[:1]
        ):
            found.append((node.lineno, ast.unparse(node.comparators[0])))
    return found


def test_a_bare_comparison_of_releases_would_be_found() -> None:
    code = (
        "a = broker.release >= FIVE; b = config.profile < Release(5, 0, 0); c = rules >= R_5_3_3"
    )
    assert [right for _, right in release_comparisons(ast.walk(ast.parse(code)))] == [
        "FIVE",
        "Release(5, 0, 0)",
        "R_5_3_3",
    ]


def test_releases_are_compared_with_the_name_of_what_changed() -> None:
    for path in PACKAGES:
        if path in RELEASE_CONSTANTS:
            continue
        for line, right in release_comparisons(nodes_of(path)):
            is_named = re.fullmatch(r"[A-Z][A-Z0-9_]*", right) and not re.fullmatch(
                r"FIVE|R_\d.*", right
            )
            is_data = re.search(r"(^|\.)(since|until|in_four|in_five)(\[\w+\])?$", right)
            assert is_named or is_data, f"{path}:{line}: name the change instead of {right}"
