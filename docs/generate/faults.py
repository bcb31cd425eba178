"""The table of docs/faults.md: every fault, its fields, its effect, the worlds that support it."""

from __future__ import annotations

import msgspec

from docs.generate.sections import DOCS, write_section
from rocketmq_emulator.cluster.fault_values import FAULTS, Fault, LinkFault
from rocketmq_emulator.cluster.faults.register import TABLE, WORLDS, Support
from rocketmq_emulator.text.docstrings import docstring_of

PAGE = DOCS / "faults.md"
SHOWN: dict[Support, str] = {"yes": "yes", "no": "–", "with_links": "with links"}


def faults_text() -> str:
    head = ["| fault | fields | effect | " + " | ".join(WORLDS) + " |"]
    head += ["|---|---|---|" + "---|" * len(WORLDS)]
    return "\n".join([*head, *(_row(word, kind) for word, kind in FAULTS.items())])


def _row(word: str, kind: type[Fault]) -> str:
    meaning = " ".join(docstring_of(kind).split()).replace("``", "`")
    cans = (SHOWN[TABLE[word].can(world)] for world in WORLDS)
    return f"| `{word}` | {', '.join(_fields(kind))} | {meaning} | {' | '.join(cans)} |"


def _fields(kind: type[Fault]) -> list[str]:
    """The fields of *kind*; the common fields of link faults are shortened to *link*."""
    of_links = {field.name for field in msgspec.structs.fields(LinkFault)}
    shown = ["*link*"] if issubclass(kind, LinkFault) else []
    for field in msgspec.structs.fields(kind):
        if shown and field.name in of_links:
            continue
        default = "" if field.required else f" ({_text(field.default)})"
        shown.append(f"`{field.encode_name}`{default}")
    return shown


def _text(default: object) -> str:
    return (
        "empty" if default == "" else f"{default:_}" if isinstance(default, int) else f"{default}"
    )


if __name__ == "__main__":
    write_section(PAGE, "faults", faults_text())
