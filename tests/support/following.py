"""Follows a page in a folder, from top to bottom: its files, its commands, its results.

A program that begins with ``# NAME.py`` is written to that file.  The commands of a block without
a language are run; their output must be the ``text`` block below it, in which … stands for
anything.  Blocks of other languages are skipped.
"""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

PREPARED = 'pytest() { python -m pytest -p no:cacheprovider "$@"; }\n'  # of this environment
TOOK_S = re.compile(r"(?<=\d )\d+\.\d\d(?= [\d,]+ )")  # a column of `rmqemu run`
FACTS = re.compile(r"\d+,\d{3}")  # the number changes with each new kind of fact
NAMED = re.compile(r"# (\w+\.py)\n")


def follow(blocks: list[tuple[str, str]], folder: Path, programs: Path) -> int:
    """Returns the number of commands; *programs* is a folder with python and rmqemu."""
    count, printed = 0, ""
    for language, text in blocks:
        if language == "python" and (named := NAMED.match(text)):
            (folder / named[1]).write_text(text)
        elif language == "":
            count += len(text.splitlines())
            printed = _printed(text, folder, programs)
        elif language == "text":
            assert _pattern(text).fullmatch(_plain(printed)), f"{printed}\nis not\n{text}"
    return count


def _printed(commands: str, folder: Path, programs: Path) -> str:
    env = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    env |= {"PATH": f"{programs}:{env['PATH']}", "COLUMNS": "100", "XDG_CACHE_HOME": str(folder)}
    run = subprocess.run(
        ["bash", "-c", PREPARED + commands],
        cwd=folder,
        env=env,
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode in (0, 1), run.stderr
    return run.stdout


def _plain(text: str) -> str:
    """One space between words, and ? for numbers that differ between machines or versions."""
    lines = (" ".join(line.split()) for line in text.splitlines())
    return "".join(f"{FACTS.sub('?', TOOK_S.sub('?', line))}\n" for line in lines)


def _pattern(shown: str) -> re.Pattern[str]:
    """A line that is … alone stands for any number of lines."""
    lines = (
        r"(.*\n)*?" if line == "…" else re.escape(line).replace("…", ".*") + r"\n"
        for line in _plain(shown).splitlines()
    )
    return re.compile("".join(lines))
