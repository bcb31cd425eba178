"""The command line: its options before a command, the module of each command, usage errors.

A command loads no other command.  Modules that draw, use HTTP, read scenarios or judge journals
take tenths of a second to load, and most commands need none of them; all commands are loaded
only if the command line names none of them (``-h``, a misspelled command).  ``COMMANDS`` is in the
order in which ``rmqemu -h`` lists them.  Errors of every command and of the parser have one form,
so that a script can read them from standard error:

    rmqemu: no such option: --topik (Possible options: --topic)
    Try "rmqemu produce -h".
"""

from __future__ import annotations

import os
import platform
import re
import signal
import sys
from collections.abc import Mapping, Sequence
from importlib import import_module
from io import TextIOWrapper
from typing import Annotated, Any, NamedTuple, get_args

import typer
from typer.main import get_command

from rocketmq_emulator.cli.options.errors import (
    BAD_USE,
    EXIT_CODES,
    INTERRUPTED,
    PARSER_ERROR,
    close_output,
    errors_as_exit_codes,
    print_error,
    print_note,
)
from rocketmq_emulator.cli.options.help_screens import WIDTH_MAX, HelpCommand, HelpGroup
from rocketmq_emulator.cli.options.up_options import RELEASE_DEFAULT
from rocketmq_emulator.text.docstrings import docstring_of

COMPLETION_VARIABLE = "_RMQEMU_COMPLETE"


def application(wanted: str = "") -> typer.Typer:
    """The command line with the command *wanted*, or with all commands if none has that name."""
    app = typer.Typer(
        name="rmqemu",
        cls=CommandLine,
        help="A RocketMQ for tests: starts in half a second, uses the real protocol.",
        no_args_is_help=True,
        pretty_exceptions_enable=False,
        rich_markup_mode=None,
        context_settings={
            "help_option_names": ["-h", "--help"],
            "max_content_width": WIDTH_MAX,
        },
        epilog=EXIT_CODES,
    )
    app.callback()(rmqemu)
    if wanted != "--version":
        add_commands(app, wanted)
    return app


def show_version(wanted: bool) -> None:
    """If *wanted*, print the versions that a bug report needs, and exit."""
    if wanted:
        from importlib import metadata  # noqa: PLC0415  # `up` starts without it

        version = metadata.version("rocketmq-emulator")
        typer.echo(
            f"rmqemu {version} (Python {platform.python_version()}; "
            f"behaves as RocketMQ {RELEASE_DEFAULT}, other releases: --release)"
        )
        raise typer.Exit


def rmqemu(
    version: Annotated[  # handled by its callback
        bool,
        typer.Option(
            "--version", callback=show_version, is_eager=True, help="Show the version and exit."
        ),
    ] = False,
) -> None:
    """Take the options that stand before a command."""


def run() -> None:
    """Parse the command line and run the command."""
    if sys.stdout is None:  # closed by ``>&-``: discard the output
        sys.stdout = open(os.devnull, "w")  # noqa: SIM115, PTH123  # open until exit
    if isinstance(sys.stdout, TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")  # a character that the locale lacks is a ?
    command = get_command(application(_wanted(os.environ)))  # imports the command
    if signal.getsignal(signal.SIGINT) is signal.SIG_DFL:  # set by ``main`` during imports
        signal.signal(signal.SIGINT, signal.default_int_handler)
    command(prog_name="rmqemu")  # for each way to start it


def _wanted(environment: Mapping[str, str]) -> str:
    """The command of this command line, or of the one that a shell completes; else empty."""
    words = [*environment.get("COMP_WORDS", environment.get("_TYPER_COMPLETE_ARGS", "")).split()]
    is_completion = COMPLETION_VARIABLE in environment
    return "".join(words[1:2] if is_completion else sys.argv[1:2])


# The module of each command -----------------------------------------------------------


SETTINGS_ORDER = (
    "Settings come from (later ones win): defaults, -c, --config, RMQEMU_…, --set, flags."
)
CLUSTER, NODES, MESSAGES = "Cluster", "Nodes and faults", "Messages, topics and groups"
SCENARIOS, JOURNALS, SPARK = "Scenarios", "Journals", "Spark"


class CommandPlace(NamedTuple):
    """The module below ``cli`` that holds a command, or a group of them, and its name there.

    *panel* is the title under which ``rmqemu -h`` lists it.
    """

    panel: str
    module: str
    name: str = "app"
    epilog: str | None = None


COMMANDS: Mapping[str, CommandPlace] = {
    "up": CommandPlace(CLUSTER, "commands.up", "up"),
    "demo": CommandPlace(CLUSTER, "demo.command", "demo"),
    "status": CommandPlace(CLUSTER, "commands.status", "status"),
    "docs": CommandPlace(CLUSTER, "commands.docs", "docs"),
    "nameserver": CommandPlace(CLUSTER, "commands.roles", "nameserver", SETTINGS_ORDER),
    "controller": CommandPlace(CLUSTER, "commands.roles", "controller", SETTINGS_ORDER),
    "broker": CommandPlace(CLUSTER, "commands.roles", "broker", SETTINGS_ORDER),
    "nodes": CommandPlace(NODES, "commands.nodes", "nodes"),
    "kill": CommandPlace(NODES, "commands.nodes", "kill"),
    "stop": CommandPlace(NODES, "commands.nodes", "stop"),
    "start": CommandPlace(NODES, "commands.nodes", "start"),
    "restart": CommandPlace(NODES, "commands.nodes", "restart"),
    "pause": CommandPlace(NODES, "commands.nodes", "pause"),
    "resume": CommandPlace(NODES, "commands.nodes", "resume"),
    "advance": CommandPlace(NODES, "commands.nodes", "advance"),
    "advertise": CommandPlace(NODES, "commands.nodes", "advertise"),
    "fault": CommandPlace(NODES, "commands.fault"),
    "produce": CommandPlace(MESSAGES, "commands.produce", "produce"),
    "consume": CommandPlace(MESSAGES, "commands.consume", "consume"),
    "watch": CommandPlace(MESSAGES, "commands.consume", "watch"),
    "message": CommandPlace(MESSAGES, "commands.message"),
    "dlq": CommandPlace(MESSAGES, "commands.dlq"),
    "topic": CommandPlace(MESSAGES, "commands.topic"),
    "group": CommandPlace(MESSAGES, "commands.group"),
    "scenario": CommandPlace(SCENARIOS, "commands.scenario"),
    "run": CommandPlace(SCENARIOS, "commands.run", "run"),
    "replay": CommandPlace(SCENARIOS, "commands.replay", "replay"),
    "shrink": CommandPlace(SCENARIOS, "commands.replay", "shrink"),
    "strategy": CommandPlace(SCENARIOS, "commands.strategy"),
    "explain": CommandPlace(JOURNALS, "commands.explain", "explain"),
    "report": CommandPlace(JOURNALS, "commands.report", "report"),
    "inspect": CommandPlace(JOURNALS, "commands.inspect", "inspect"),
    "diff": CommandPlace(JOURNALS, "commands.diff", "diff"),
    "judge": CommandPlace(JOURNALS, "commands.judge", "judge"),
    "sweep": CommandPlace(SPARK, "commands.spark", "sweep"),
    "study": CommandPlace(SPARK, "commands.spark", "study"),
    "tables": CommandPlace(SPARK, "commands.spark", "tables"),
}


OLD_SPELLINGS: Mapping[tuple[str, ...], Mapping[str, str]] = {  # as they were documented before
    ("sweep",): {"--to": "--output", "--cores": "--jobs"},
    ("tables",): {"--to": "--output"},
    ("dlq", "replay"): {"--to": "--topic"},
}


def with_new_spellings(arguments: Sequence[str]) -> list[str]:
    """*arguments* with the option names of today: old scripts keep working."""
    for command, names in OLD_SPELLINGS.items():
        if tuple(arguments[: len(command)]) == command:
            return [_with_new_spelling(each, names) for each in arguments]
    return [*arguments]


def _with_new_spelling(argument: str, names: Mapping[str, str]) -> str:
    name, equals, value = argument.partition("=")
    return f"{names.get(name, name)}{equals}{value}"


def add_commands(app: typer.Typer, wanted: str = "") -> None:
    """Add the command *wanted* to *app*, or all commands if none has that name."""
    for name in (wanted,) if wanted in COMMANDS else COMMANDS:
        place = COMMANDS[name]
        command = getattr(import_module(f"rocketmq_emulator.cli.{place.module}"), place.name)
        if isinstance(command, typer.Typer):
            app.add_typer(command, name=name, rich_help_panel=place.panel)
        else:
            app.command(name, epilog=place.epilog, rich_help_panel=place.panel)(command)
    _add_help(app)


def _add_help(app: typer.Typer) -> None:
    """Make each command's docstring its help, even if Python has removed it (``-OO``).

    The help screens are those of ``help_screens``, also for the commands of groups.
    """
    for command in app.registered_commands:
        command.cls = HelpCommand
        command.help = command.help or docstring_of(command.callback)
    for group in app.registered_groups:
        group.cls = HelpGroup
        if group.typer_instance is not None:
            _add_help(group.typer_instance)


# Errors of the parser and of commands -------------------------------------------------


class CommandLine(HelpGroup):
    """The group of all commands; turns the exception that ends a command into an exit code."""

    def main(
        self,
        args: Sequence[str] | None = None,
        prog_name: str | None = None,
        complete_var: str | None = None,
        standalone_mode: bool = True,
        windows_expand_args: bool = True,
        **extra: Any,  # noqa: ANN401  # as click takes them
    ) -> object:
        """Parse *args* and run the command; in standalone mode, exit with its code."""
        extra |= {
            "prog_name": prog_name,
            "complete_var": complete_var,
            "windows_expand_args": windows_expand_args,
        }
        args = with_new_spellings(sys.argv[1:] if args is None else args)
        if not standalone_mode:
            return super().main(args, standalone_mode=False, **extra)
        code = self._code_of(args, extra)
        sys.exit(code or close_output())

    def _code_of(self, args: Sequence[str] | None, extra: dict[str, Any]) -> int:
        try:
            with errors_as_exit_codes():
                code = super().main(args, standalone_mode=False, **extra)
        except PARSER_ERROR as error:
            return _usage_error(error)
        except typer.Exit as end:
            return int(end.exit_code)
        except typer.Abort:
            return INTERRUPTED
        return code if isinstance(code, int) else 0


def _usage_error(error: Any) -> int:  # noqa: ANN401  # the parser's error has no public name
    if type(error).__name__ == "NoArgsIsHelpError":
        error.show()
        return BAD_USE
    print_error(_value_error(error) or _parser_text(error))
    if (context := getattr(error, "ctx", None)) is not None:
        print_note(f'Try "{context.command_path} -h".')
    return int(error.exit_code)


def _parser_text(error: Any) -> str:  # noqa: ANN401  # as above
    text = " ".join(error.format_message().split()).removesuffix(".")
    text = re.sub(r"^Got unexpected extra argument.*? \((.*)\)$", r"unexpected: \1", text)
    return text[:1].lower() + text[1:]


KINDS = {int: "a whole number", float: "a number"}
BOUNDS = {  # by whether there is a least and a greatest value
    (True, True): " from {} to {}",
    (True, False): " of at least {}",
    (False, True): " of at most {1}",
    (False, False): "",
}


def _value_error(error: Any) -> str:  # noqa: ANN401  # as above
    """The expected and the given value of a number or a choice: "--brokers is …"; else empty.

    The parser's own text would be that of the library with which it checks values.
    """
    parameter, cause = getattr(error, "param", None), error.__cause__
    descriptor = getattr(parameter, "type_descriptor", None)
    if parameter is None or descriptor is None or not hasattr(cause, "errors"):
        return ""
    kind = (get_args(descriptor.annotation) or (descriptor.annotation,))[0]
    limits = descriptor.parameter_info.min, descriptor.parameter_info.max
    if descriptor.choices is not None:
        expected = "one of " + ", ".join(str(getattr(c, "value", c)) for c in descriptor.choices)
    elif kind in KINDS:
        bounds = BOUNDS[limits[0] is not None, limits[1] is not None]
        expected = KINDS[kind] + bounds.format(*limits)
    else:
        return ""
    name = parameter.get_error_hint().replace("'", "")
    return f"{name} is {expected}, not {str(cause.errors()[0]['input'])!r}"
