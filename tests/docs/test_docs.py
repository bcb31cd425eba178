"""Programs of the documents are run; links, commands and generated sections are checked."""

from __future__ import annotations

import ast
import asyncio
import contextlib
import importlib.util
import inspect
import io
import itertools
import os
import re
import selectors
import subprocess
import sys
import time
from collections.abc import Iterator
from operator import itemgetter
from pathlib import Path

import pytest
import typer

from docs.generate import (
    checkers,
    demo_picture,
    facts,
    failures,
    mqadmin,
    quirks,
    sdk_monitors,
    settings,
)
from docs.generate.episodes import facts_of_a_run
from docs.generate.sections import with_section
from rocketmq_emulator.cli.app import application
from rocketmq_emulator.client.producer.fault_strategy import FAULT_TABLE_4, FAULT_TABLE_5_1_4
from rocketmq_emulator.cluster.spec import ClusterSpec
from rocketmq_emulator.cluster.worlds.embedded import EmbeddedCluster
from rocketmq_emulator.facts import SCHEMA_VERSION
from rocketmq_emulator.testing.rocketmq import RocketMQ
from tests.support.following import NAMED
from tests.support.paths import ROOT

PAGES = sorted(p.relative_to(ROOT) for p in (*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")))
START = Path("docs/start.md")
README_BYTES_MAX = 9_000
FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\]\(([^)\s]+)\)")
PROGRAM_S_MAX = 180.0  # one of them starts a Spark
NOTEBOOK = Path("docs/jupyter.md")
HERE = "127.0.0.1:9876"  # the address of the cluster in the documents


def text_of(page: Path | str) -> str:
    return (ROOT / page).read_text()


def blocks(page: Path | str) -> list[tuple[str, str]]:
    """Language and text of each fenced block."""
    return FENCE.findall(text_of(page))


# Programs ---------------------------------------------------------------------------------


@pytest.fixture
def namesrv() -> Iterator[str]:
    with EmbeddedCluster(ClusterSpec()) as cluster:
        yield cluster.namesrv


def lines_of_a_program(command: list[str | Path], count: int, folder: Path = ROOT) -> list[str]:
    """The first *count* lines of a program, or all if it ends before; then it is killed.

    In another *folder* than the clone's it cannot import this clone.
    """
    env = {**os.environ, "PYTHONUNBUFFERED": "1"}
    if folder == ROOT:
        env["PYTHONPATH"] = str(ROOT)
    program = subprocess.Popen(command, cwd=folder, env=env, stdout=subprocess.PIPE)
    assert program.stdout is not None
    printed, until_s = b"", time.monotonic() + PROGRAM_S_MAX
    with selectors.DefaultSelector() as ready, program.stdout:
        ready.register(program.stdout, selectors.EVENT_READ)
        while printed.count(b"\n") < count:
            left_s = until_s - time.monotonic()
            if left_s <= 0 or not ready.select(left_s):
                break
            if not (more := os.read(program.stdout.fileno(), 65_536)):
                break
            printed += more
    if program.poll() is None and printed.count(b"\n") >= count:
        program.kill()
    assert program.wait(PROGRAM_S_MAX) in (0, -9), printed.decode()
    return printed.decode().splitlines()


def programs() -> Iterator[tuple[str, str, str]]:
    """Page, program, and the output below it; without tests and without files for ``follow``."""
    for page in PAGES:
        found = [] if page == NOTEBOOK else blocks(page)
        for number, (language, text) in enumerate(found):
            if language == "python" and "def test_" not in text and not NAMED.match(text):
                follows = [*found[number + 1 :], ("", "")][0]
                assert follows[0] == "text", f"{page}: no output below this program:\n{text}"
                yield str(page), text, follows[1]


def test_programs_in_the_pages_print_what_stands_below_them() -> None:
    told = list(programs())
    assert len(told) >= 4
    for page, found in itertools.groupby(told, itemgetter(0)):
        # A topic made by the first send changes its queues while the program runs.
        with RocketMQ(topics=["orders"]) as cluster:
            for _, program, output in found:
                wanted = output.splitlines()
                code = program.replace(HERE, cluster.namesrv)
                printed = lines_of_a_program([sys.executable, "-c", code], len(wanted))
                assert printed == wanted, page


PYTEST = (sys.executable, "-m", "pytest", "-p", "rocketmq_emulator.testing.pytest_plugin")


def test_the_tests_on_the_pages_pass(tmp_path: Path) -> None:
    pages = ("docs/start.md", "docs/pytest.md")
    tests = [text for page in pages for _, text in blocks(page) if "def test_" in text]
    assert len(tests) >= 4
    for number, text in enumerate(tests):
        (tmp_path / f"test_{number}.py").write_text(text)
    run = subprocess.run(
        [*PYTEST, "-p", "trio", "-q", "-c", os.devnull, "--rootdir", tmp_path, tmp_path],
        env={**os.environ, "PYTHONPATH": str(ROOT), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert f"{len(tests)} passed" in run.stdout, run.stdout


def test_the_unittest_page_runs_with_unittest(tmp_path: Path) -> None:
    (program,) = [text for language, text in blocks("docs/unittest.md") if language == "python"]
    (tmp_path / "test_billing.py").write_text(program)
    run = subprocess.run(
        [sys.executable, "-W", "error", "-m", "unittest"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert f"Ran {program.count(' def test_')} tests" in run.stderr, run.stderr
    assert run.stderr.endswith("OK\n"), run.stderr


def test_the_cells_of_the_notebook_page_print_what_stands_below_them() -> None:
    """Each cell runs as IPython runs it: in a loop of asyncio, with await at its top level."""
    found = blocks(NOTEBOOK)
    names: dict[str, object] = {}

    async def run() -> None:
        for number, (language, text) in enumerate(found):
            if language == "python":
                printed = io.StringIO()
                code = compile(text, NOTEBOOK, "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
                with contextlib.redirect_stdout(printed):
                    waiting = eval(code, names)  # noqa: S307  # a coroutine, if the cell awaits
                    if inspect.iscoroutine(waiting):
                        await waiting
                follows = [*found[number + 1 :], ("", "")][0]
                assert printed.getvalue() == (follows[1] if follows[0] == "text" else ""), text

    asyncio.run(run())
    assert len(found) > 8


def test_the_first_page_shows_the_scenario_and_the_result_of_the_page_about_it() -> None:
    page = blocks("docs/script-a-failure.md")
    for language, text in blocks("README.md"):
        if language == "python" and NAMED.match(text):
            assert (language, text) in page
        if text.startswith("seed "):
            assert text.removesuffix("…\n") in "".join(shown for _, shown in page)
    assert "docs/hangs.png" in text_of("README.md")


def test_the_first_page_is_short_and_leads_to_every_page() -> None:
    assert len(text_of("README.md").encode()) <= README_BYTES_MAX
    linked = {link.partition("#")[0] for link in LINK.findall(text_of("README.md"))}
    assert {page.as_posix() for page in PAGES} - {"README.md"} <= linked


def example(name: str, *arguments: str, lines: int) -> list[str]:
    return lines_of_a_program([sys.executable, f"examples/{name}.py", *arguments], lines)


def test_what_one_example_produces_the_other_consumes(namesrv: str) -> None:
    sent = example("produce", namesrv, lines=11)
    assert [line.partition(" ")[0] for line in sent] == ["order"] * 10
    assert all(f"order {number}: SEND_OK" in line for number, line in enumerate(sent))
    got = sorted(
        line.partition(" from")[0] for line in example("consume", namesrv, "10", lines=11)
    )
    assert got == [f"order {number}" for number in range(10)]


def test_the_pull_example_goes_on_after_what_it_committed(namesrv: str) -> None:
    example("produce", namesrv, lines=11)
    polled = example("pull", namesrv, "10", lines=11)
    assert sorted(line.partition(" at")[0] for line in polled) == [f"order {n}" for n in range(10)]
    example("produce", namesrv, lines=11)
    assert len(example("pull", namesrv, "10", lines=11)) == 10


def test_the_orderly_example_keeps_the_steps_of_each_order(namesrv: str) -> None:
    steps = "created, paid, packed, shipped"
    printed = example("orderly", namesrv, lines=4)
    assert printed == [f"{order}: {steps}" for order in ("A-17", "B-4", "C-250")]


def test_the_lines_of_other_languages_on_the_first_steps_are_those_of_the_examples() -> None:
    asked = {
        "java": ("examples/java/Hello.java", "producer.setNamesrvAddr("),
        "javascript": ("examples/node/hello.js", "new Producer({ nameSrv"),
        "go": ("examples/go/hello.go", "producer.WithNameServer("),
    }
    for language, (file, words) in asked.items():
        (line,) = [text for kind, text in blocks(START) if kind == language]
        assert words in line
        assert words in text_of(file)


# Links and names --------------------------------------------------------------------------


@pytest.mark.parametrize("page", PAGES, ids=str)
def test_links_lead_somewhere(page: Path) -> None:
    for link in LINK.findall(text_of(page)):
        path, _, anchor = link.partition("#")
        if path.startswith("https://"):
            continue
        target = (ROOT / page.parent / path) if path else ROOT / page
        assert target.exists(), f"{page}: {link} leads nowhere"
        if anchor:
            heads = re.findall(r"^#+ (.*)$", target.read_text(), re.MULTILINE)
            assert anchor in [head.lower().replace(" ", "-") for head in heads], f"{page}: {link}"


def shown_commands() -> Iterator[tuple[Path, list[str]]]:
    for page in PAGES:
        for _, block in blocks(page):
            for line in block.splitlines():
                if line.startswith("rmqemu "):
                    yield page, re.split(r" #| \|", line)[0].split()[1:]
        for inline in re.findall(r"`(rmqemu [^`]*)`", text_of(page)):
            yield page, inline.split()[1:]


def test_commands_that_are_shown_exist_with_their_options() -> None:
    shown = list(shown_commands())
    assert len(shown) > 15
    whole = typer.main.get_command(application())
    for page, words in shown:
        command = whole
        rest = [word for word in words if word != "…"]
        while rest and rest[0] in getattr(command, "commands", {}):
            command = command.commands[rest.pop(0)]
        assert not hasattr(command, "commands"), f"{page}: no such command: {words}"
        known = {option for parameter in command.params for option in parameter.opts}
        used = {word for word in rest if word.startswith("-")}
        assert used <= known, f"{page}: {command.name} has no {sorted(used - known)}"


def test_make_has_every_target_that_is_shown() -> None:
    targets = set(re.findall(r"^(\w+):", text_of("Makefile"), re.MULTILINE))
    for page in PAGES:
        shown = re.findall(r"(?:^|`)make (\w+)", text_of(page), re.MULTILINE)
        assert set(shown) <= targets, page


def test_modules_that_are_shown_to_be_run_exist() -> None:
    shown = {name for page in PAGES for name in re.findall(r"python -m ([\w.]+)", text_of(page))}
    assert shown
    for name in shown:
        assert importlib.util.find_spec(name), f"there is no module {name}"


# Generated sections -----------------------------------------------------------------------


def test_the_settings_page_matches_the_config_structs() -> None:
    page = settings.PAGE.read_text()
    assert with_section(page, "settings", settings.settings_text()) == page, "run make page"


def test_the_settings_page_says_what_changes_while_a_server_runs() -> None:
    rows = [line.split(" | ") for line in settings.PAGE.read_text().splitlines()]
    live = {row[0].strip("| `"): row[4] for row in rows if len(row) == 6 and row[4]}
    assert live["perm"] == live["order_message_enable"] == "yes"
    assert live["support_acting_master"] == "from 5.0"
    assert live["client_silence_ms_max"] == live["need_wait_for_service"] == "from 5.1"
    assert live["server_side_reset"] == "from 5.2"
    assert "store" not in live


def test_the_page_of_facts_matches_the_structs_and_their_sources() -> None:
    page = facts.PAGE.read_text()
    assert with_section(page, "facts", facts.facts_text()) == page, "run make page"
    assert f"now {SCHEMA_VERSION}." in page


def test_the_page_of_checkers_names_every_checker_and_metric() -> None:
    page = checkers.PAGE.read_text()
    assert with_section(page, "checkers", checkers.checkers_text()) == page, "run make page"


def test_the_page_on_judging_names_every_monitor_of_any_client() -> None:
    page = sdk_monitors.PAGE.read_text()
    assert with_section(page, "monitors", sdk_monitors.monitors_text()) == page, "run make page"


def test_the_page_of_mqadmin_matches_the_recordings_and_the_listed_differences() -> None:
    page = mqadmin.PAGE.read_text()
    assert with_section(page, "commands", mqadmin.commands_text()) == page, "run make page"


def test_the_page_of_quirks_names_every_quirk() -> None:
    page = quirks.PAGE.read_text()
    assert with_section(page, "quirks", quirks.quirks_text()) == page, "run make page"
    assert with_section(page, "found", quirks.found_text()) == page, "run make page"


def test_the_page_of_failures_matches_a_new_run() -> None:
    page, seen = failures.PAGE.read_text(), facts_of_a_run()
    for name, text in failures.sections(seen):
        assert with_section(page, name, text) == page, f"{name}: run make page"
    assert failures.PICTURE.read_text() == failures.picture(seen), "run make page"
    assert "| acknowledged, not delivered | 0 |" in page


def test_the_page_of_failures_sums_up_with_times_from_its_tables() -> None:
    page = " ".join(text_of("docs/failures.md").split())
    found = re.search(r"queues moved after (\d+) s, and were delivered again (\d+) s after", page)
    assert found
    assert f"| +{found[1]}.0 s | consumer-b claims broker-a/" in page
    assert f"| +{found[2]}.0 s | **broker-b/0,1,2,3 delivered again**" in page


def test_the_picture_on_the_first_page_shows_both_kills() -> None:
    svg = demo_picture.PICTURE.read_text()
    shown = " ".join(re.findall(r"<text[^>]*>([^<]*)</text>", svg))
    assert "consumer-b is killed with -9" in shown
    assert "broker-b is killed with -9" in shown
    assert "Now: broker-b is back" in shown
    assert "http" not in svg.replace('xmlns="http://www.w3.org/2000/svg"', "")


def test_the_client_s_page_has_the_fault_tables_of_the_code() -> None:
    row = re.compile(r"^\| ([\d,]+) ms \| (\S+).*? \| \| ([\d,]+) ms \| (\S+)", re.MULTILINE)
    rows = row.findall(text_of("docs/client.md"))

    def number(text: str, unit_ms: int = 1) -> int:
        return 0 if text == "–" else int(text.replace(",", "")) * unit_ms

    for table, columns in ((FAULT_TABLE_4, (0, 1)), (FAULT_TABLE_5_1_4, (2, 3))):
        floors, durations = ([row[column] for row in rows] for column in columns)
        assert tuple(map(number, floors)) == table.latency_ms_min
        assert tuple(number(text, 1_000) for text in durations) == table.not_available_ms
