"""``docs``: the pages of the documentation and their programs, as this version was built.

Without a page, a list of them.  In a terminal a page is drawn, and longer ones are shown by the
pager; elsewhere its Markdown is printed.  A link is shown with its target, which is a name that
the command takes, also that of a program, such as ``examples/produce.py``.  Of a folder of
programs the path is printed, and in a terminal its files.  The wheel has pages and programs in
the folder ``pages`` of the package (``hatch_build.py``), a clone in ``docs`` and beside it.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.markdown import Markdown

from rocketmq_emulator.cli.options.errors import BadUse, errors_as_exit_codes
from rocketmq_emulator.cli.options.shared import show_as
from rocketmq_emulator.cli.screens.cluster_tables import a_table
from rocketmq_emulator.text.suggestions import did_you_mean

if TYPE_CHECKING:
    from rich.console import RenderableType


PACKAGE = Path(__file__).parents[2]
FIRST = "readme"
WIDTH_MAX = 120  # longer lines are hard to read
PICTURE = re.compile(r"^!\[([^\]]*)\]\([^)]*\)$", re.MULTILINE)
COLOURS_IN_LESS = "-R"
PROGRAMS = ("examples", "testkits")
MADE = {"target", "node_modules", "__pycache__", ".pytest_cache", ".cache"}
HEADING = re.compile(r"^#+ (.*)$", re.MULTILINE)


def pages() -> Mapping[str, Path]:
    """The file of each page by its name, the first page first."""
    packed = PACKAGE / "pages"
    first, folder = packed / "README.md", packed
    if not packed.is_dir():
        first, folder = PACKAGE.parent / "README.md", PACKAGE.parent / "docs"
    found = sorted(path for path in folder.rglob("*.md") if path != first)
    names = {path.relative_to(folder).with_suffix("").as_posix(): path for path in found}
    return {FIRST: first, **names}


def programs() -> Mapping[str, Path]:
    """The file of each program that pages name, by its path: ``examples/produce.py``."""
    home = pages()[FIRST].parent
    found = (path for folder in PROGRAMS for path in sorted((home / folder).rglob("*")))
    files = {path.relative_to(home).as_posix(): path for path in found if path.is_file()}
    return {name: path for name, path in files.items() if not MADE.intersection(path.parts)}


Page = Annotated[
    str,
    typer.Argument(
        metavar="[PAGE[#SECTION]]",
        help="The name of a page, as control or docs/control.md#nodes; without it, a list.",
        autocompletion=lambda: list(pages()),
    ),
]


def docs(page: Page = "") -> None:
    """Show a page of the documentation, or list the pages."""
    with errors_as_exit_codes():
        if not page:
            show_as(pages(), _list, as_json=False)
            return
        in_terminal = sys.stdout.isatty()
        name = page.removeprefix("../")
        if _page_name(page) not in pages() and name.startswith(PROGRAMS):
            typer.echo(_program(name, with_files=in_terminal))
            return
        text = _text_of(page)
        if name in PROGRAMS:
            typer.echo(f"this is the page; the folder: `rmqemu docs {name}/`", err=True)
        if not in_terminal:
            typer.echo(text)
            return
        console = Console()
        os.environ.setdefault("LESS", COLOURS_IN_LESS)
        with console.pager(styles=True):
            drawn = PICTURE.sub(r"*[picture: \1]*", text)
            console.print(Markdown(drawn, hyperlinks=False), width=min(console.width, WIDTH_MAX))


def _program(name: str, *, with_files: bool) -> str:
    """The text of a program, or the path of a folder.  Raises ``BadUse``.

    Without its files the path is all, so that the shell can copy it by ``$(…)``.
    """
    known = programs()
    if name in known:
        return known[name].read_text(encoding="utf-8").rstrip("\n")
    below = [path for path in known if path.startswith(f"{name.rstrip('/')}/")]
    if not below:
        raise BadUse(f"there is no program {name!r}{did_you_mean(name, known, before='; ')}")
    folder = known[below[0]].parents[below[0].removeprefix(name.rstrip("/")).count("/") - 1]
    return "\n".join([str(folder), *below] if with_files else [str(folder)])


def _page_name(wanted: str) -> str:
    """The name of the page that *wanted* means, if there is one: ``ci`` for docs/ci.md#nodes."""
    name = wanted.partition("#")[0].removeprefix("docs/").removesuffix(".md") or FIRST
    return FIRST if name.lower() == FIRST else name


def _text_of(wanted: str) -> str:
    """The Markdown of a page, from the section on if one is named.  Raises ``BadUse``."""
    name, section = _page_name(wanted), wanted.partition("#")[2]
    known = pages()
    if name not in known:
        advice = did_you_mean(name, known, before="; ", otherwise="; `rmqemu docs` lists them")
        raise BadUse(f"there is no page {name!r}{advice}")
    text = known[name].read_text(encoding="utf-8")
    if not section:
        return text
    heads = {_anchor(found[1]): found.start() for found in HEADING.finditer(text)}
    if section not in heads:
        advice = did_you_mean(section, heads, before="; ", otherwise="")
        raise BadUse(f"{name} has no section {section!r}{advice}")
    return text[heads[section] :]


def _anchor(heading: str) -> str:
    return heading.lower().replace(" ", "-")


def _list(found: Mapping[str, Path]) -> RenderableType:
    table = a_table("page", "title")
    for name, path in found.items():
        with path.open(encoding="utf-8") as lines:
            table.add_row(name, next(lines).lstrip("# ").strip())
    return table
