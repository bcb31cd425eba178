"""``docs``: the pages that are shown, and the errors for other names."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest
import typer
from typer.testing import CliRunner

from rocketmq_emulator.cli.app import add_commands
from rocketmq_emulator.cli.commands import docs
from tests.support.paths import ROOT


def rmqemu(*arguments: str, code: int = 0):
    app = typer.Typer()
    add_commands(app)
    done = CliRunner().invoke(app, list(arguments))
    assert done.exit_code == code, done.output
    return done


def test_without_a_page_all_are_listed_with_their_titles() -> None:
    listed = rmqemu("docs").stdout
    found = {line.split()[0] for line in listed.splitlines() if line.strip()}
    files = [*(ROOT / "docs").rglob("*.md")]
    names = {file.relative_to(ROOT / "docs").with_suffix("").as_posix() for file in files}
    assert {"readme", "ci", "studies/idle", *names} <= found
    assert re.search(r"^ *ci +In your CI", listed, re.MULTILINE)


@pytest.mark.parametrize("name", ["ci", "docs/ci.md", "ci.md"])
def test_a_page_is_printed_as_it_is_when_the_output_is_no_terminal(name) -> None:
    assert rmqemu("docs", name).stdout == (ROOT / "docs" / "ci.md").read_text() + "\n"


def test_a_section_is_printed_from_its_heading_on() -> None:
    shown = rmqemu("docs", "docs/control.md#nodes").stdout
    assert shown.startswith("## Nodes\n")
    assert "# The control address" not in shown
    wrong = rmqemu("docs", "control#node", code=2).stderr
    assert wrong == "rmqemu: control has no section 'node'; did you mean nodes?\n"


@pytest.mark.parametrize("name", ["testkits", "testkits.md", "docs/testkits.md"])
def test_a_page_comes_before_a_folder_of_the_same_name(name) -> None:
    shown = rmqemu("docs", name)
    assert shown.stdout == (ROOT / "docs" / "testkits.md").read_text() + "\n"
    assert ("the folder: `rmqemu docs testkits/`" in shown.stderr) == (name == "testkits")


@pytest.mark.parametrize("name", ["testkits#java", "testkits.md#java"])
def test_a_section_of_a_page_with_the_name_of_a_folder_is_printed(name) -> None:
    assert rmqemu("docs", name).stdout.startswith("## Java\n")


def test_another_name_is_refused_with_the_nearest() -> None:
    wrong = rmqemu("docs", "contrl", code=2)
    assert wrong.stderr == "rmqemu: there is no page 'contrl'; did you mean control?\n"


def test_pages_named_in_the_output_of_commands_exist() -> None:
    named = set()
    for folder in ("emulator", "pipeline", "scenarios"):
        for path in (ROOT / folder).rglob("*.py"):
            text = path.read_text()
            named |= set(re.findall(r"(?:rmqemu|\{command\}) docs ([\w/-]+)", text))
    assert {"failures", "facts", "sweep", "pytest"} <= named
    assert named <= docs.pages().keys()


def test_programs_that_pages_name_are_shown_and_folders_named_by_their_path() -> None:
    shown = rmqemu("docs", "../examples/produce.py").stdout
    assert shown.rstrip() == (ROOT / "examples/produce.py").read_text().rstrip()
    for name in ("testkits/java-junit", "testkits/java-junit/", "testkits/"):
        assert rmqemu("docs", name).stdout == f"{ROOT / name}\n"
    refused = rmqemu("docs", "examples/prodce.py", code=2)
    assert "did you mean examples/produce.py?" in refused.stderr


def test_an_installed_package_has_the_pages_in_itself(tmp_path, monkeypatch) -> None:
    (tmp_path / "pages" / "studies").mkdir(parents=True)
    for name in ("README.md", "control.md", "studies/idle.md"):
        (tmp_path / "pages" / name).write_text(f"# {name}\n")
    monkeypatch.setattr(docs, "PACKAGE", tmp_path)
    assert list(docs.pages()) == ["readme", "control", "studies/idle"]
    assert rmqemu("docs", "readme").stdout == "# README.md\n\n"


def test_a_page_is_drawn_in_a_terminal() -> None:
    shown = in_a_terminal("docs", "ci")
    assert "In your CI" in shown
    assert "# In your CI" not in shown
    assert "\x1b[" in shown
    assert "(control.md#addresses)" in re.sub(r"\x1b\[[0-9;]*m", "", shown)  # a link's target


def test_in_a_terminal_the_files_of_a_folder_follow_its_path() -> None:
    path, *files = in_a_terminal("docs", "testkits/java-junit").splitlines()
    assert path == str(ROOT / "testkits/java-junit")
    assert "testkits/java-junit/pom.xml" in files


def in_a_terminal(*arguments: str) -> str:
    code = (
        "import os, pty, sys\n"
        "os.environ.update(PAGER='cat', COLUMNS='80', TERM='xterm')\n"
        "sys.exit(pty.spawn([sys.executable, '-m', 'rocketmq_emulator', *sys.argv[1:]]))\n"
    )
    words = [sys.executable, "-c", code, *arguments]
    return subprocess.run(words, cwd=ROOT, capture_output=True, check=True).stdout.decode()
