"""A check of commit messages, for git's hook ``commit-msg``.

    git config core.hooksPath tools/hooks     installs it in a clone
    python tools/commit_message.py FILE       prints the errors of the message in FILE

Subjects are searched and listed: a subject is short and names the change.  The body gives the
reason, the attempts and the measurements; a change of the packages must have a body.
Imports only the standard library, so that any ``python3`` runs it.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

SUBJECT_CHARS_MAX = 72
PACKAGES = ("protocol/", "emulator/", "scenarios/", "pipeline/", "pyspark_rocketmq/")
MADE_BY_GIT = re.compile(r"Merge |Revert |(fixup|squash|amend)! ")
SCISSORS = re.compile(r"^# -+ >8 -+$", re.MULTILINE)


def problems(message: str, *, changes_packages: bool) -> list[str]:
    """The errors of *message*, a sentence each; lines that begin with # are comments of git."""
    text = SCISSORS.split(message)[0]
    lines = [line.rstrip() for line in text.splitlines() if not line.startswith("#")]
    subject, *rest = "\n".join(lines).strip("\n").split("\n")
    if MADE_BY_GIT.match(subject):
        return []
    found = []
    if len(subject) > SUBJECT_CHARS_MAX:
        found.append(f"the subject has {len(subject)} characters: at most {SUBJECT_CHARS_MAX}")
    if subject.endswith("."):
        found.append("the subject ends with a period")
    if not subject[:1].isupper():
        found.append("the subject must begin with a capital letter, as in Answer GET_X")
    if rest and rest[0]:
        found.append("the second line must be empty")
    if changes_packages and not any(rest):
        found.append("a body must give the reason of the change: the defect, or the measurement")
    return found


def staged_files() -> list[str]:
    """The files of the commit that is being made."""
    command = ["git", "diff", "--cached", "--name-only"]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()


def main() -> int:
    message = Path(sys.argv[1]).read_text(encoding="utf-8")
    changes = any(name.startswith(PACKAGES) and name.endswith(".py") for name in staged_files())
    found = problems(message, changes_packages=changes)
    for text in found:
        print(f"commit message: {text}", file=sys.stderr)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
