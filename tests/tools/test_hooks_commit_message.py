"""The hook that checks commit messages: the messages that it refuses, and that git runs it."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from tests.support.paths import ROOT
from tools.commit_message import SUBJECT_CHARS_MAX, problems

BODY = "\n\nMonitoring reads it every minute.\n"


@pytest.mark.parametrize(
    ("message", "wanted"),
    [
        ("A" * SUBJECT_CHARS_MAX + BODY, ""),
        ("A" * (SUBJECT_CHARS_MAX + 1) + BODY, "73 characters: at most 72"),
        ("Answer GET_BROKER_RUNTIME_INFO." + BODY, "ends with a period"),
        ("answer GET_BROKER_RUNTIME_INFO" + BODY, "must begin with a capital letter"),
        ("Answer GET_BROKER_RUNTIME_INFO\nMonitoring reads it.", "second line must be empty"),
        ("Answer GET_BROKER_RUNTIME_INFO", "a body must give"),
        (
            "Answer GET_BROKER_RUNTIME_INFO\n\n# Changes to be committed:\n",
            "body must give the reason",
        ),
        ("Merge branch 'a' of somewhere that has a very long name indeed, as branches have", ""),
        ("fixup! answer GET_BROKER_RUNTIME_INFO", ""),
        ("# a comment of git\nAnswer GET_BROKER_RUNTIME_INFO" + BODY, ""),
        (f"Answer{BODY}# {'-' * 24} >8 {'-' * 24}\ndiff --git a.py", ""),
    ],
)
def test_a_message_is_refused_with_what_is_wrong(message: str, wanted: str) -> None:
    found = problems(message, changes_packages=True)
    assert [wanted in text for text in found] == [True] * bool(wanted)


def test_only_a_change_of_the_packages_needs_a_body() -> None:
    assert problems("Correct a link in the README", changes_packages=False) == []


def test_git_runs_the_hook_and_makes_no_commit(tmp_path: Path) -> None:
    def git(*arguments: str, is_fine: bool = True) -> str:
        names = ("-c", "user.name=a", "-c", "user.email=a@b")
        done = subprocess.run(
            ["git", *names, *arguments],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=False,
        )
        assert (done.returncode == 0) is is_fine, done.stderr
        return done.stdout + done.stderr

    git("init", "--quiet")
    git("config", "core.hooksPath", "tools/hooks")  # as in CONTRIBUTING.md
    (tmp_path / "tools" / "hooks").mkdir(parents=True)
    for name in ("tools/hooks/commit-msg", "tools/commit_message.py"):
        shutil.copy(ROOT / name, tmp_path / name)
    (tmp_path / "emulator").mkdir()
    (tmp_path / "emulator" / "a.py").write_text("")
    git("add", "emulator")
    assert "a body must give the reason" in git("commit", "-m", "Add a module", is_fine=False)
    git("commit", "--quiet", "-m", "Add a module", "-m", "The next change needs it.")
    assert git("log", "--format=%s").splitlines() == ["Add a module"]
    assert "git config core.hooksPath tools/hooks" in (ROOT / "CONTRIBUTING.md").read_text()
