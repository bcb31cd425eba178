"""Prints hashes of texts that ``python``, ``-O`` and ``-OO`` must write alike.

    python -OO tests/support/scenarios/texts_of_runs.py

The texts are journals, pages and help.  Each line is a name and a hash; lines of journals also
contain the reason why the run ended.
"""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Iterator

import msgspec
import typer
from typer.main import get_command

from docs.generate import checkers, facts, faults, scenarios, worlds
from rocketmq_emulator.cli.app import application
from rocketmq_emulator.scenarios.catalog.finding import LIBRARY, in_folder, load
from rocketmq_emulator.scenarios.catalog.questions import question
from tests.support.scenarios.bytes_of_runs import SEED, lines

RUN = "a_member_joins"  # written in Python
PAGES = {
    "checkers": checkers.checkers_text,
    "facts": facts.facts_text,
    "faults": faults.faults_text,
    "verbs": worlds.verbs_text,
    "fields": scenarios.fields_text,
    "words": scenarios.words_text,
}


@question
def sharing(seed: int, members: int = 3) -> dict[str, float]:
    """How many queues a member has.

    Told by its docstring.
    """
    return {"queues": 8 / members + seed}


def helps(app: typer.Typer) -> Iterator[tuple[str, str]]:
    """The name and the help of each command."""
    waiting = [("rmqemu", get_command(app))]
    while waiting:
        name, command = waiting.pop()
        yield name, command.get_help(typer.Context(command, info_name=name))
        inner = getattr(command, "commands", {})
        waiting += [(f"{name} {word}", each) for word, each in inner.items()]


def texts() -> Iterator[tuple[str, str]]:
    for found in in_folder(LIBRARY):
        yield found.name, msgspec.json.encode(load(found.name)).decode()
    for name, written in PAGES.items():
        yield name, written()
    yield from helps(application())
    yield "question", f"{sharing.title} {sharing.__doc__}"


if __name__ == "__main__":
    for name, text in texts():
        hashed = hashlib.blake2b(text.encode(), digest_size=16).hexdigest()
        sys.stdout.write(f"{name}: {hashed}\n")
    for line in lines([load(RUN), load("weather", {"seed": SEED})], is_backwards=False):
        sys.stdout.write(f"{line}\n")
