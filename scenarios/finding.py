"""Scenarios by name: of the library, of a file, or a function of a module.

    load("broker_dies")                          of scenarios/library
    load("failures/half_a_link.toml")            a file
    load("failures/mine.py:my_scenario")         a function of a file
    load("shop.failures:my_scenario")            a function of a module

Errors are ``BadScenario``, whatever kind it is.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

from scenarios.files.parameters import Value
from scenarios.files.reading import read_plan
from scenarios.plan import Plan
from scenarios.problems import BadScenario, Problem, nearest

LIBRARY = Path(__file__).parent / "library"


def load(name: str, parameters: Mapping[str, Value | str] | None = None) -> Plan:
    """The plan of the scenario *name*, with these *parameters*.  Raises ``BadScenario``."""
    path = Path(name)
    if path.suffix == ".toml":
        return _of_file(path, parameters or {})
    known = {found.stem: found for found in library_files()}
    if name not in known:
        raise BadScenario(name, [Problem((), f"there is no such scenario{nearest(name, known)}")])
    return _of_file(known[name], parameters or {})


def library_files() -> Iterator[Path]:
    """Each file of the library, by name."""
    yield from sorted(LIBRARY.glob("*.toml"))


def _of_file(path: Path, parameters: Mapping[str, Value | str]) -> Plan:
    try:
        text = path.read_text()
    except OSError as error:
        raise BadScenario(str(path), [Problem((), error.strerror or str(error))]) from None
    except UnicodeDecodeError as error:
        raise BadScenario(str(path), [Problem((), f"it is no text in UTF-8: {error}")]) from None
    return read_plan(text, str(path), parameters)
