"""Generate the methods of the clients for threads and for asyncio from the trio clients.

Where the trio client awaits, the client for threads blocks and the client for asyncio awaits;
names, parameters and docstrings are the same.  A test fails if the generated modules are old.

    python -m tools.faces
"""

from __future__ import annotations

import ast
import inspect
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple, TypeAlias

import rocketmq_emulator
import rocketmq_emulator.client
from rocketmq_emulator.client import (
    LitePullConsumer,
    Producer,
    PullConsumer,
    PushConsumer,
    TransactionProducer,
)

PACKAGE = Path(__file__).parents[1] / "rocketmq_emulator" / "portal"

Method: TypeAlias = ast.FunctionDef | ast.AsyncFunctionDef


class Core(NamedTuple):
    """A trio client, and those of its methods that are not generated."""

    client: type
    written_by_hand: frozenset[str]


CLIENTS = (
    Core(Producer, frozenset({"instance", "pipeline", "start_request", "start_send"})),
    Core(TransactionProducer, frozenset()),
    Core(PushConsumer, frozenset({"loops", "messages"})),
    Core(PullConsumer, frozenset()),
    Core(
        LitePullConsumer,
        frozenset(
            {
                "requeue",
                "poll",
                "register_topic_message_queue_change_listener",
                "subscribe",
            }
        ),
    ),
)
_CLIENT_TYPES = {core.client for core in CLIENTS}


class Face(NamedTuple):
    """How the methods of a face (the clients for threads, or for asyncio) are written."""

    idea: str
    base: str
    defined: str  # instead of ``async def``
    called: str


FACES = {
    "sync": Face("Blocking calls of the clients for threads", "SyncClient", "def", "self._call"),
    "aio": Face(
        "Awaitable calls of the clients for asyncio", "AioClient", "async def", "await self._call"
    ),
}


NAMES = PACKAGE / "public_names.py"
OF_TRIO = {
    "ClientProcess",
    "NotUnderTrio",
    "Requesting",
    "Sending",
    "run",
    *(c.client.__name__ for c in CLIENTS),
}


def main() -> None:
    for name in FACES:
        path(name).write_text(text(name))
    NAMES.write_text(names_text())


def path(name: str) -> Path:
    """The path of the module ``<name>_methods``."""
    return PACKAGE / f"{name}_methods.py"


def names_text() -> str:
    """The source of the module of names that all clients share."""
    public = {*rocketmq_emulator.client.__all__} & {*rocketmq_emulator.__all__}
    names = sorted(public - OF_TRIO)
    lines = [
        '"""The names common to the clients for trio, threads and asyncio.',
        "",
        "Written by ``python -m tools.faces``.",
        '"""',
        "",
        "from __future__ import annotations",
        "",
        f"from rocketmq_emulator.client import ({', '.join(names)},)",
        "",
        f"__all__ = [{', '.join(repr(name) for name in names)},]",
        "",
    ]
    return _formatted("\n".join(lines))


def text(name: str) -> str:
    """The source of the module ``<name>_methods``, formatted."""
    face = FACES[name]
    parts = [_opening(name, face), *(_class(core, face) for core in CLIENTS)]
    return _formatted("\n\n".join(parts))


def _formatted(written: str) -> str:
    sort = ("check", "--select", "I,RUF022", "--fix", "-q")
    return _ruff("format", written=_ruff(*sort, written=written))


def _ruff(*command: str, written: str) -> str:
    """*written* after this ruff command, with the settings of this repository."""
    ruff = [sys.executable, "-m", "ruff", *command, "--stdin-filename", str(PACKAGE / "_x.py")]
    run = subprocess.run  # a short name: the next line needs the width
    return run([*ruff, "-"], input=written, capture_output=True, text=True, check=True).stdout


def _opening(name: str, face: Face) -> str:
    imports = sorted({line for core in CLIENTS for line in _imports(core)})
    defaults = {name for core in CLIENTS for m in _methods(core) for name in _default_names(m)}
    runs = [line for line in imports if line.rpartition(" ")[2] in defaults]
    types = [line for line in imports if line not in runs]
    names = [core.client.__name__ for core in CLIENTS]
    return "\n".join(
        [
            f'"""{face.idea}: the methods of the trio clients, by name.',
            "",
            "Written by ``python -m tools.faces`` from their source.",
            '"""',
            "",
            "from __future__ import annotations",
            "",
            *runs,
            "from typing import TYPE_CHECKING",
            "",
            f"from rocketmq_emulator.client import {', '.join(names)}",
            f"from rocketmq_emulator.portal.{name}_client import {face.base}",
            "",
            "if TYPE_CHECKING:",
            *[f"    {line}" for line in types],
        ]
    )


def _class(core: Core, face: Face) -> str:
    name = core.client.__name__
    bases = [f"{base.__name__}Methods" for base in core.client.__bases__ if base in _CLIENT_TYPES]
    head = f"class {name}Methods({', '.join(bases) or f'{face.base}[{name}]'}):\n"
    idea = f'    """The methods of ``{name}`` that are alike in all clients."""\n\n'
    if bases:
        idea += f"    _core: {name}\n\n"
    return head + idea + "\n\n".join(_method(method, face) for method in _methods(core))


def _method(method: Method, face: Face) -> str:
    """The source of a method that calls the trio client's method, in trio's thread."""
    core = f"self._core.{method.name}"
    arguments = "".join(f", {argument}" for argument in _passed_on(method.args))
    is_property = any(ast.unparse(d) == "property" for d in method.decorator_list)
    if isinstance(method, ast.AsyncFunctionDef):
        defined, call = face.defined, f"{face.called}({core}{arguments})"
    else:
        target = f"lambda: {core}" if is_property else core
        defined, call = "def", f"self._plain({target}{arguments})"
    assert method.returns is not None, "the packages are typed"
    returns = ast.unparse(method.returns)
    lines = [
        *(["@property"] if is_property else []),
        f"{defined} {method.name}({ast.unparse(method.args)}) -> {returns}:",
        f'    """{_docstring(method)}"""',
        f"    {'' if returns == 'None' else 'return '}{call}",
    ]
    return "\n".join(f"    {line}" if line else "" for part in lines for line in part.split("\n"))


def _docstring(method: Method) -> str:
    text = ast.get_docstring(method)
    assert text is not None, f"{method.name} has no docstring"
    lines = text.split("\n")
    more = [f"    {line}" if line else "" for line in lines[1:]]
    return "\n".join([lines[0], *more, *(["    "] if more else [])])


def _passed_on(arguments: ast.arguments) -> Iterator[str]:
    for argument in arguments.args[1:]:
        yield argument.arg
    for argument in arguments.kwonlyargs:
        yield f"{argument.arg}={argument.arg}"


def _methods(core: Core) -> Iterator[Method]:
    """The public methods of *core* that are not written by hand."""
    tree = ast.parse(inspect.getsource(core.client)).body[0]
    assert isinstance(tree, ast.ClassDef)
    for node in tree.body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and not (
            node.name.startswith("_") or node.name in core.written_by_hand
        ):
            yield node


def _imports(core: Core) -> Iterator[str]:
    """The imports of all names in the signatures, from the modules that the core imports from."""
    module = ast.parse(inspect.getsource(sys.modules[core.client.__module__]))
    origins = {
        name.name: node.module
        for node in ast.walk(module)
        if isinstance(node, ast.ImportFrom)
        for name in node.names
    }
    for method in _methods(core):
        annotated = [*method.args.args, *method.args.kwonlyargs]
        trees = [a.annotation for a in annotated if a.annotation] + [method.returns]
        used = {n.id for t in trees if t for n in ast.walk(t) if isinstance(n, ast.Name)}
        for name in (used | _default_names(method)) & origins.keys() - {"Any", "Self"}:
            yield f"from {origins[name]} import {name}"


def _default_names(method: Method) -> set[str]:
    defaults = [*method.args.defaults, *method.args.kw_defaults]
    return {default.id for default in defaults if isinstance(default, ast.Name)}


if __name__ == "__main__":
    main()
