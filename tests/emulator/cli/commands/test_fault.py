"""``fault add``, ``list`` and ``remove`` against a cluster in a thread of this process."""

from __future__ import annotations

import inspect
import json

import msgspec
import pytest
import typer
from typer.testing import CliRunner

from rocketmq_emulator.cli.app import CommandLine, add_commands
from rocketmq_emulator.cli.commands.fault import flags_of
from rocketmq_emulator.cli.commands.fault_add import adding
from rocketmq_emulator.cluster.fault_values import FAULTS
from rocketmq_emulator.cluster.worlds.embedded import EmbeddedCluster


@pytest.fixture(scope="module")
def cluster():
    with EmbeddedCluster(control=0) as running:
        yield running


@pytest.fixture
def rmqemu(cluster):
    app = typer.Typer(cls=CommandLine)
    add_commands(app, "fault")
    runner = CliRunner(
        env={"NAMESRV_ADDR": cluster.namesrv, "RMQEMU_CONTROL": "", "COLUMNS": "80"}
    )

    def run(*arguments: str, code: int = 0):
        done = runner.invoke(app, ["fault", *arguments])
        assert done.exit_code == code, done.output
        return done

    yield run
    cluster.end_faults()


def test_a_fault_is_added_listed_and_removed(cluster, rmqemu) -> None:
    done = rmqemu("add", "kill", "--node", "broker-b", "--for", "20s")
    assert done.output.startswith("fault 1: kill at broker-b for ")
    rmqemu("add", "clock_jump", "--node", "brokers", "--ms", "-500")
    lines = [line.split() for line in rmqemu("list").stdout.splitlines()]
    assert ["2", "clock_jump", "ms=-500"] in [line[:3] for line in lines]
    assert rmqemu("remove", "1").stdout == "ended: 1\n"
    assert cluster.is_running("broker-b")
    assert rmqemu("remove", "--all").stdout == "ended: 2\n"
    assert rmqemu("remove", "--all").stdout == "ended: none held\n"
    assert rmqemu("list").stdout == "no fault holds\n"


def test_json_is_what_the_control_address_says(rmqemu) -> None:
    rule = '{"code": 310, "error_code": 2}'
    state = json.loads(rmqemu("add", "answer", "--node=broker-a", "--rule", rule, "--json").stdout)
    assert state["fault"]["rule"] == json.loads(rule)
    assert json.loads(rmqemu("list", "--json").stdout) == [state]


def test_all_words_say_their_options_and_what_is_possible_here(rmqemu) -> None:
    rows = {row["word"]: row for row in json.loads(rmqemu("list", "--words", "--json").stdout)}
    assert list(rows) == list(FAULTS)
    assert rows["kill"] == {"word": "kill", "options": ["--node"], "here": "yes"}
    assert rows["power_off"]["here"] == "no"
    assert rows["slow_link"]["here"] == "up --with-links"


@pytest.mark.parametrize("word", FAULTS)
def test_every_fault_has_a_command_with_its_fields_as_options(rmqemu, word) -> None:
    shown = rmqemu("add", word, "--help").stdout
    for flag in flags_of(FAULTS[word]):
        assert flag in shown


@pytest.mark.parametrize("word", FAULTS)
def test_an_option_that_is_left_out_is_the_field_s_default(word) -> None:
    (command,) = [each for each in adding.registered_commands if each.name == word]
    shared = {"duration", "control", "namesrv", "as_json"}
    taken = inspect.signature(command.callback).parameters.values()
    defaults = {each.name: each.default for each in taken if each.name not in shared}
    missing = inspect.Parameter.empty
    assert defaults == {
        field.name: missing if field.default is msgspec.NODEFAULT else field.default
        for field in msgspec.structs.fields(FAULTS[word])
    }


@pytest.mark.parametrize(
    ("arguments", "code", "text"),
    [
        ("add kil --node broker-a", 2, "no such command 'kil'. Did you mean 'kill'?"),
        ("add kill --nod broker-a", 2, "no such option: --nod"),
        ("add kill", 2, "missing option '--node'"),
        ("add clock_jump --node broker-a --ms x", 2, "--ms is a whole number, not 'x'"),
        (
            "add busy --node broker-a --pool sent",
            2,
            "busy: pool has no value 'sent'; did you mean send?",
        ),
        ("add cut", 2, "cut: a fault of a link has either between or around"),
        ("add answer --node broker-a --rule {", 2, "--rule is JSON, see `rmqemu docs reply"),
        (
            "add kill --node broker-a --for ever",
            2,
            "invalid value for '--for': a length of time is",
        ),
        (
            'add answer --node broker-a --rule {"code":"PULL","delay_ms":1}',
            2,
            "answer: rule: code 'PULL' is no request of RocketMQ; did you mean PULL_MESSAGE?",
        ),
        (
            'add answer --node broker-a --rule {"kode":11,"delay_ms":1}',
            2,
            "answer: rule: there is no field kode; did you mean code?",
        ),
        ("add kill --node broker-c", 4, "there is no node named 'broker-c'"),
        ("add full_disk --node broker-a", 1, "the embedded world cannot do full_disk"),
        ("remove", 2, "give the ids of faults, or --all"),
        ("remove 1000", 4, "there is no fault 1000"),
    ],
)
def test_what_makes_no_sense_is_refused_in_one_line(rmqemu, arguments, code, text) -> None:
    done = rmqemu(*arguments.split(), code=code)
    assert done.stderr.startswith(f"rmqemu: {text}")
