"""Help screens: commands in titled panels, and options with their values, for a terminal's width.

The parser's own screens cut summaries and show Python types (``<list[str]>``).  These show the
first sentence of each command, never cut, and for an option its metavar: the choices, or one word.
They are plain text without boxes, so that they can be searched and piped; a terminal adds colours.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from enum import Enum
from textwrap import wrap
from typing import Any, TypeAlias

import typer
from typer.core import TyperCommand, TyperGroup

COMMANDS, ARGUMENTS, OPTIONS = "Commands", "Arguments", "Options"
CONNECTION = "Connection"  # the panel of options that say where the cluster is
WIDTH_MAX = 100
NAMES_WIDTH_MAX = 28  # of options and metavars; the help of longer ones begins in the next line
INDENT, GAP = "  ", "  "
FIRST_SENTENCE = re.compile(r".*?\.(?=\s|$)")
HIDDEN_DEFAULTS: tuple[object, ...] = (None, "", False, (), [])
USAGE_PIECE = re.compile(r"\{?(.*?)\}?(?:\.\.\.)?")

Row: TypeAlias = tuple[str, str]  # a name, and its help text
# The parser's classes are not public: parameters, contexts and formatters are ``Any`` here.


class HelpCommand(TyperCommand):
    """A command whose help screen is made here."""

    def format_help(self, ctx: Any, formatter: Any) -> None:  # noqa: ANN401  # see above
        """Write usage, help, arguments and options."""
        pieces = [_usage_piece(piece) for piece in self.collect_usage_pieces(ctx)]
        formatter.write_usage(ctx.command_path, " ".join(pieces))
        _write_text(formatter, self.help)
        _write_panels(formatter, _parameters(self.get_params(ctx)))
        _write_text(formatter, self.epilog)


class HelpGroup(TyperGroup):
    """A group of commands whose help screen is made here."""

    def format_help(self, ctx: Any, formatter: Any) -> None:  # noqa: ANN401  # see above
        """Write usage, help, commands and options."""
        formatter.write_usage(ctx.command_path, " ".join(self.collect_usage_pieces(ctx)))
        _write_text(formatter, self.help)
        names = self.list_commands(ctx)
        commands = [(name, self.get_command(ctx, name)) for name in names]
        panels: dict[str, list[Row]] = {}
        for name, command in commands:
            panel = getattr(command, "rich_help_panel", None)
            rows = panels.setdefault(panel if isinstance(panel, str) else COMMANDS, [])
            rows.append((name, _summary(command)))
        _write_panels(formatter, panels, name_width_min=max(map(len, names), default=0))
        _write_panels(formatter, _parameters(self.get_params(ctx)))
        _write_text(formatter, self.epilog)


# Help text of options ------------------------------------------------------------------


def _usage_piece(piece: str) -> str:
    """An argument as it is typed: the parser writes ``{NODE…}...`` for a required list."""
    found = USAGE_PIECE.fullmatch(piece)
    return found[1] if found else piece


def _summary(command: Any) -> str:  # noqa: ANN401  # see above
    """The first sentence of a command's help."""
    text = " ".join((command.short_help or command.help or "").partition("\n\n")[0].split())
    found = FIRST_SENTENCE.match(text)
    return found[0] if found else text


def _parameters(parameters: Iterable[Any]) -> Mapping[str, list[Row]]:
    """The rows of arguments and options, by panel."""
    panels: dict[str, list[Row]] = {ARGUMENTS: [], OPTIONS: [], CONNECTION: []}
    for each in parameters:
        if getattr(each, "hidden", False):
            continue
        if each.param_type_name == "argument":
            names, panel = each.metavar or each.name.upper(), ARGUMENTS
        else:
            names, panel = _names(each), getattr(each, "rich_help_panel", None) or OPTIONS
        notes = "; ".join(_notes(each))
        text = " ".join((each.help or "").split())
        panels[panel].append((names, GAP.join(filter(None, (text, notes and f"[{notes}]")))))
    return panels


def _names(option: Any) -> str:  # noqa: ANN401  # see above
    """``-n, --namesrv HOST:PORT``; a switch has no value."""
    flags = sorted([*option.opts, *option.secondary_opts], key=lambda flag: flag[:2] == "--")
    names = ", ".join(flags)
    return names if option.is_flag else f"{names} {option.metavar or 'VALUE'}"


def _notes(each: Any) -> Iterator[str]:  # noqa: ANN401  # see above
    """The environment variable, the default, and whether an option is required."""
    if each.envvar:
        yield f"env var: {each.envvar}"
    if isinstance(each.show_default, str):
        yield f"default: {each.show_default}"
    elif each.show_default and each.default not in HIDDEN_DEFAULTS:
        value = each.default
        yield f"default: {value.value if isinstance(value, Enum) else value}"
    if each.required and each.param_type_name == "option":
        yield "required"


# Lines --------------------------------------------------------------------------------


def _write_text(formatter: Any, text: str | None) -> None:  # noqa: ANN401  # see above
    """Paragraphs; option names are not broken at their hyphens."""
    for paragraph in (text or "").split("\n\n"):
        if words := " ".join(paragraph.split()):
            formatter.write("\n")
            for line in _wrapped(words, formatter.width - len(INDENT)):
                formatter.write(f"{INDENT}{line}\n")


def _write_panels(
    formatter: Any,  # noqa: ANN401  # see above
    panels: Mapping[str, Sequence[Row]],
    *,
    name_width_min: int = 0,
) -> None:
    for title, rows in panels.items():
        if rows:
            formatter.write(f"\n{_styled(title, bold=True)}:\n")
            fitting = (len(name) for name, _ in rows if len(name) <= NAMES_WIDTH_MAX)
            width = max(name_width_min, *fitting, 0)
            for name, text in rows:
                formatter.write(_row(name, text, width, formatter.width))


def _row(name: str, text: str, name_width: int, width: int) -> str:
    shown = _styled(name.ljust(name_width), fg=typer.colors.CYAN)
    indent = INDENT + " " * name_width + GAP
    lines = _wrapped(text, width - len(indent)) or [""]
    if len(name) > name_width:
        return "\n".join([INDENT + shown, *(indent + line for line in lines), ""])
    first, *more = lines
    return "\n".join([f"{INDENT}{shown}{GAP}{first}".rstrip(), *(indent + m for m in more), ""])


def _wrapped(text: str, width: int) -> list[str]:
    return wrap(text, width, break_on_hyphens=False, break_long_words=False)


def _styled(text: str, **style: Any) -> str:  # noqa: ANN401  # as typer takes them
    has_colours = sys.stdout.isatty() and not os.environ.get("NO_COLOR")
    is_dumb = os.environ.get("TERM", "dumb") in ("dumb", "unknown")
    return typer.style(text, **style) if has_colours and not is_dumb else text
