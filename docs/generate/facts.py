"""The reference of docs/facts.md: every fact, its fields, its severity and its writers.

Explanations are the docstring of a fact and the comments of its fields; the writers are the
folders whose code makes the struct.
"""

from __future__ import annotations

import ast
import inspect
import sys
import typing
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from docs.generate.sections import DOCS, write_section
from docs.generate.settings import explanations
from rocketmq_emulator.facts import Fact, Queue, all_facts
from rocketmq_emulator.text.docstrings import docstring_of

PAGE = DOCS / "facts.md"
ROOT = DOCS.parent
FACTS_MADE_IN = ("emulator", "scenarios")
TITLES = {
    "rocketmq_emulator.facts.nodes": "Any process",
    "rocketmq_emulator.facts.servers": "NameServers and brokers",
    "rocketmq_emulator.facts.controller": "Controllers",
    "rocketmq_emulator.facts.stores": "Stores, with the timer messages and transactions in them",
    "rocketmq_emulator.facts.replication": "Replication: masters and slaves",
    "rocketmq_emulator.facts.acting_master": "Slaves that act as a master, and returning brokers",
    "rocketmq_emulator.facts.auto_switch": "Replication in controller mode",
    "rocketmq_emulator.facts.clients": "Clients",
    "rocketmq_emulator.facts.faults": "Faults and runs",
}
TYPE_WORDS: Mapping[object, str] = {int: "integer", bool: "boolean", Queue: "queue"}

EVERYWHERE = {  # explanations of fields without a comment
    "broker": "its name",
    "broker_id": "given by the controller: 1, 2, 3 …",
    "sync_state_set_epoch": "the number of changes of the set",
    "cluster": "its name",
    "correlation_id": "of the request, in its property CORRELATION_ID",
    "epoch": "the number of a master in the life of a log",
    "epochs": "their numbers, the oldest first",
    "slave_id": "given by the controller: 1, 2, 3 …",
    "sync_state_set": "ids of brokers",
    "error": "the exception's type and text",
    "group": "name of the consumer group",
    "members": "client ids",
    "peer": "address of the other end of the connection",
    "perm": "bits as in RocketMQ: 4 read, 2 write, 1 inherited",
    "queue": "the queue",
    "queues": "the queues",
    "reason": "why",
    "remark": "the answer's remark",
    "role": "the role of the process",
    "took_ms": "how long it took",
    "topic": "its name",
    "traceback": "of the exception, as Python prints it",
    "uniq_key": "the message's UNIQ_KEY property, its id at clients",
}


def facts_text() -> str:
    """The whole reference, in the order of the structs in the source."""
    rooms = rooms_by_fact()
    parts = []
    for module, title in TITLES.items():
        parts += [f"## {title}", "", _of_module(module), ""]
        kinds = [kind for kind in all_facts() if kind.__module__ == module]
        for kind in sorted(kinds, key=_line):
            parts += [*_fact(kind, rooms.get(kind.__name__, ())), ""]
    return "\n".join(parts)


def rooms_by_fact() -> Mapping[str, list[str]]:
    """The folders whose code creates a fact, by the fact's name."""
    names = {kind.__name__ for kind in all_facts()}
    found: dict[str, set[str]] = {}
    for folder in FACTS_MADE_IN:
        for path in (ROOT / folder).rglob("*.py"):
            room = str(path.parent.relative_to(ROOT))
            for name in _made_in(path) & names:
                found.setdefault(name, set()).add(room)
    return {name: sorted(rooms) for name, rooms in found.items()}


def _made_in(path: Path) -> set[str]:
    """The names of all functions and classes that *path* calls by a plain name."""
    tree = ast.parse(path.read_text())
    calls = (node.func for node in ast.walk(tree) if isinstance(node, ast.Call))
    return {function.id for function in calls if isinstance(function, ast.Name)}


def _fact(kind: type[Fact], rooms: Iterable[str]) -> Iterator[str]:
    yield f"### {kind.__name__}"
    yield ""
    yield docstring_of(kind)
    yield ""
    noted = ", ".join(f"`{room}`" for room in rooms)
    yield f"Severity {kind.severity}; {_when(kind)}written by {noted or 'no code yet'}."
    yield ""
    yield "| field | type | |"
    yield "| --- | --- | --- |"
    explained, types = explanations(kind), typing.get_type_hints(kind)
    for name in kind.__struct_fields__:
        text = ": ".join(filter(None, (explained[name] or EVERYWHERE[name], _values(types[name]))))
        yield f"| `{name}` | {_type(types[name])} | {text.replace('|', '¦')} |"


def _when(kind: type[Fact]) -> str:
    return "written only on demand; " if kind.on_demand else ""


def _type(kind: object) -> str:
    """The JSON type of *kind*, or ``queue``."""
    if typing.get_origin(kind) is tuple:
        return f"list of {_type(typing.get_args(kind)[0])}"
    return TYPE_WORDS.get(kind, "string")


def _values(kind: object) -> str:
    """The values of a ``Literal``, quoted; empty for other types."""
    values = typing.get_args(kind) if typing.get_origin(kind) is typing.Literal else ()
    return ", ".join(f'"{value}"' for value in values)


def _of_module(name: str) -> str:
    return docstring_of(sys.modules[name])


def _line(kind: type[Fact]) -> int:
    return inspect.getsourcelines(kind)[1]


if __name__ == "__main__":
    write_section(PAGE, "facts", facts_text())
