"""Finds scenarios by name: in the library, in a file, or as a function of a module.

    load("broker_dies")                          of scenarios/library
    load("failures/half_a_link.toml")            a file
    load("failures/mine.py:my_scenario")         a function of a file
    load("shop.failures:my_scenario")            a function of a module
    load("weather", {"seed": 7})                 random: scenarios/weather

All errors are ``BadScenario``.  ``find_question`` finds a question (``questions``) by the same
kinds of names.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
from collections.abc import Callable, Container, Iterator, Mapping
from pathlib import Path
from types import ModuleType
from typing import NamedTuple

import msgspec

from rocketmq_emulator.scenarios.catalog.questions import Question
from rocketmq_emulator.scenarios.files.parameters import Value, parameter_values
from rocketmq_emulator.scenarios.files.reading import read_plan
from rocketmq_emulator.scenarios.plan.plan import Plan, of_release
from rocketmq_emulator.scenarios.plan.problems import BadScenario, Problem
from rocketmq_emulator.scenarios.plan.validity import Checks, problems_of
from rocketmq_emulator.scenarios.recording.scenario import Scenario
from rocketmq_emulator.scenarios.weather.generating import weather
from rocketmq_emulator.scenarios.weather.shape import SHAPES, WeatherShape
from rocketmq_emulator.text.old_names import renamed, renamed_import
from rocketmq_emulator.text.suggestions import nearest, suggestion

HERE = Path(__file__).parents[1]
LIBRARY = HERE / "library"
FILES_SHOWN_MAX = 8
Planned = Callable[[Mapping[str, Value | str]], Plan]


class Listed(NamedTuple):
    """A scenario that was found: its name, its file, and the function that makes its plan.

    ``checked`` makes it with checks of one's own; their problems have lines.
    """

    name: str
    file: Path
    plan: Planned
    checked: Callable[[Mapping[str, Value | str], Checks], Plan] | None = None


def weather_of(given: Mapping[str, Value | str]) -> Plan:
    """The plan of the weather with the parameters *given*.  Raises ``BadScenario``.

    ``shape`` names one of ``SHAPES``, whose fields the other parameters replace.
    """
    given = dict(given)
    base = SHAPES.get(str(name := given.pop("shape", "default")))
    if base is None:
        text = f"there is no shape {name!r}{suggestion(str(name), SHAPES)}"
        raise BadScenario("weather", [Problem(("--set shape",), text)])
    shape = {
        field.name: getattr(base, field.name)
        for field in msgspec.structs.fields(WeatherShape)
        if isinstance(field.default, int | float)
    }
    values, problems = parameter_values(
        {"seed": 1, "release": "4.9.7", "quirk": "", **shape}, given
    )
    if problems:
        raise BadScenario("weather", problems)
    fields = {name: value for name, value in values.items() if name in shape}
    try:
        made = msgspec.convert(fields, WeatherShape)
        plan = weather(int(values["seed"]), str(values["release"]), made)
        if values["quirk"]:
            plan = msgspec.structs.replace(plan, quirks=(str(values["quirk"]),))
    except ValueError as error:
        raise BadScenario("weather", [Problem((), str(error))]) from None
    if found := problems_of(plan):
        raise BadScenario("weather", [Problem(path, text) for path, text in found])
    return msgspec.structs.replace(plan, parameters=values)


WEATHER = Listed("weather", HERE / "weather" / "generating.py", weather_of)


def has_plan_per_seed(name: str, given: Container[str]) -> bool:
    """Whether each seed of a run has its own plan: of weather without a parameter ``seed``."""
    return name == WEATHER.name and "seed" not in given


def load(
    name: str, parameters: Mapping[str, Value | str] | None = None, release: str = ""
) -> Plan:
    """The plan of the scenario *name*, with these *parameters*.  Raises ``BadScenario``.

    If *release* is given, the cluster is of that release; weather is also drawn for it.
    """
    given = parameters or {}
    if release and name == WEATHER.name:
        given = {**given, "release": release}
    return of_release(find(name).plan(given), release)


def load_checked(name: str, given: Mapping[str, Value | str], checks: Checks) -> Plan:
    """The plan of the scenario *name*, in which *checks* find no problem.

    Raises ``BadScenario`` with all problems and their lines.
    """
    listed = find(name)
    if listed.checked is not None:
        return listed.checked(given, checks)
    plan = listed.plan(given)
    if found := [*checks(plan)]:
        raise BadScenario(name, [Problem(path, text) for path, text in found])
    return plan


def names_in(name: str) -> list[str]:
    """*name*; of a Python file with several scenarios the name of each, as ``FILE.py:one``.

    Raises ``BadScenario`` if the file cannot be imported.
    """
    path = Path(name)
    if path.suffix != ".py":
        return [name]
    found = list(_of_module(_module_of(path), path))
    return [f"{name}:{each.name}" for each in found] if len(found) > 1 else [name]


def find(name: str) -> Listed:
    """The scenario *name*.  Raises ``BadScenario`` if there is none, or more than one."""
    place, _, function = name.partition(":")
    path = Path(place)
    if path.suffix == ".toml" and not function:
        return _of_toml(path)
    if path.suffix == ".py":
        return _one_of(name, list(_of_module(_module_of(path), path)), function)
    if function:
        module = _imported(place, name)
        return _one_of(name, list(_of_module(module, Path(module.__file__ or place))), function)
    for listed in (*in_folder(LIBRARY), WEATHER):
        if name in (listed.name, listed.file.stem):
            return listed
    known = [listed.name for listed in (*in_folder(LIBRARY), WEATHER)]
    questions = _questions_of_library()
    if name in questions:
        raise _refused(
            name,
            "it is a question, which needs no cluster: `rmqemu run` and `rmqemu sweep` answer it",
        )
    if new := renamed(name):
        raise _refused(name, new)
    if path.is_dir():
        raise _refused(name, _folder_text(path))
    if file := _file_meant(path):
        raise _refused(name, f"there is no such scenario; did you mean the file {file}?")
    raise _refused(name, f"there is no such scenario{suggestion(name, [*known, *questions])}")


SUFFIXES = (".toml", ".py")


def _files_in(folder: Path) -> list[Path]:
    """The files of *folder* that may have scenarios; none if it cannot be read."""
    try:
        found = [each for each in folder.iterdir() if each.suffix in SUFFIXES and each.is_file()]
    except OSError:
        return []
    return sorted(each for each in found if not each.name.startswith("_"))


def _folder_text(folder: Path) -> str:
    files = [str(each) for each in _files_in(folder)]
    if not files:
        return "it is a folder, and has no scenario (FILE.toml, FILE.py)"
    shown = ", ".join(files[:FILES_SHOWN_MAX])
    more = f" and {len(files) - FILES_SHOWN_MAX} more" if len(files) > FILES_SHOWN_MAX else ""
    return f"it is a folder: name one of its scenarios: {shown}{more}"


def _file_meant(path: Path) -> str:
    """A file with the name of *path* and an ending, or with a similar name; empty if none."""
    files = {each.stem: each for each in _files_in(path.parent)}
    stem = path.stem if path.suffix else path.name
    found = files.get(stem) or files.get(nearest(stem, files))
    return str(found) if found else ""


def find_question(name: str) -> Question | None:
    """The question *name*; None if it is a scenario, or if there is none (``find`` raises then).

    Raises ``BadScenario`` for a module that cannot be imported.
    """
    place, _, function = name.partition(":")
    path = Path(place)
    if path.suffix == ".py":
        module = _module_of(path)
    elif function:
        module = _imported(place, name)
    elif path.suffix == ".toml":
        return None
    else:
        return _questions_of_library().get(name)
    found = _questions_of(module)
    if not function and len(found) == 1 and not list(_of_module(module, path)):
        return next(iter(found.values()))
    return found.get(function)


def _questions_of_library() -> dict[str, Question]:
    found: dict[str, Question] = {}
    for path in sorted(LIBRARY.glob("*.py")):
        found |= _questions_of(_module_of(path))
    return found


def _questions_of(module: ModuleType) -> dict[str, Question]:
    values = [value for value in vars(module).values() if isinstance(value, Question)]
    return {each.name: each for each in values if each.function.__module__ == module.__name__}


def in_folder(folder: Path) -> Iterator[Listed]:
    """Each scenario of the TOML and Python files in *folder*, in the order of file names.

    Raises ``BadScenario`` if a Python file cannot be imported, or the folder does not exist.
    """
    if not folder.is_dir():
        raise _refused(str(folder), "there is no such folder")
    for path in sorted(folder.iterdir()):
        if path.suffix == ".toml":
            yield _of_toml(path)
        elif path.suffix == ".py" and path.stem != "__init__":
            yield from _of_module(_module_of(path), path)


def _of_toml(path: Path) -> Listed:
    return Listed(
        path.stem,
        path,
        lambda given: read_plan(_text(path), str(path), given),
        lambda given, checks: read_plan(_text(path), str(path), given, checks),
    )


def _of_module(module: ModuleType, path: Path) -> Iterator[Listed]:
    for value in vars(module).values():
        if isinstance(value, Scenario) and value.function.__module__ == module.__name__:
            yield Listed(value.name, path, value.plan, value.checked)


def _one_of(name: str, found: list[Listed], wanted: str) -> Listed:
    """The scenario *wanted*, or the only one.  Raises ``BadScenario``."""
    known = {listed.name: listed for listed in found}
    if not found:
        raise _refused(name, "there is no scenario in it: an async function under @scenario")
    if wanted in known:
        return known[wanted]
    if wanted:
        text = f"there is no scenario {wanted!r} in it{suggestion(wanted, known)}"
        raise _refused(name, text)
    if len(found) > 1:
        several = ", ".join(f"{name}:{each}" for each in known)
        raise _refused(name, f"it has several scenarios; name one of {several}")
    return found[0]


def _module_of(path: Path) -> ModuleType:
    """The module of a file: imported once, then found in ``sys.modules``."""
    if path.resolve().parent == LIBRARY.resolve():
        return importlib.import_module(f"rocketmq_emulator.scenarios.library.{path.stem}")
    for module in list(sys.modules.values()):
        if (known := getattr(module, "__file__", None)) and Path(known) == path.resolve():
            return module
    if not path.is_file():
        raise _refused(str(path), "there is no such file")
    name = path.stem if path.stem not in sys.modules else f"scenario_file_{path.stem}"
    spec = importlib.util.spec_from_file_location(name, path.resolve())
    assert spec is not None, "a .py file has a loader"
    assert spec.loader is not None, "a .py file has a loader"
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except Exception as error:  # noqa: BLE001  # a user's module raises anything
        del sys.modules[name]
        why = renamed_import(error) or f"{type(error).__name__}: {error}"
        raise _refused(str(path), f"it cannot be imported: {why}") from None
    return module


def _imported(module: str, name: str) -> ModuleType:
    try:
        return importlib.import_module(module)
    except Exception as error:  # noqa: BLE001  # a user's module raises anything
        function = name.partition(":")[2]
        if isinstance(error, ImportError) and (new := renamed(module, function)):
            raise _refused(name, new) from None
        why = renamed_import(error) or f"{type(error).__name__}: {error}"
        raise _refused(name, f"{module} cannot be imported: {why}") from None


def _text(path: Path) -> str:
    try:
        return path.read_text()
    except UnicodeDecodeError as error:
        raise _refused(str(path), f"it is no text in UTF-8: {error}") from None
    except OSError as error:
        raise _refused(str(path), error.strerror or str(error)) from None


def _refused(name: str, text: str) -> BadScenario:
    return BadScenario(name, [Problem((), text)])
