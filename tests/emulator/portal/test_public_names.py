"""Public names: how they are imported, and at what cost; pages and examples import no others."""

from __future__ import annotations

import importlib.metadata
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import rocketmq_emulator
import rocketmq_emulator.client
from rocketmq_emulator.cluster.worlds.embedded import EmbeddedCluster
from tests.support.paths import ROOT


def printed_by(program: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, check=True, text=True
    )
    return done.stdout.strip()


@pytest.mark.parametrize("name", rocketmq_emulator.__all__)
def test_every_public_name_can_be_had(name) -> None:
    assert getattr(rocketmq_emulator, name) is not None
    assert name in dir(rocketmq_emulator)


def test_every_name_of_the_client_is_public() -> None:
    assert set(rocketmq_emulator.client.__all__) <= set(rocketmq_emulator.__all__)


def test_type_checkers_see_every_public_name() -> None:
    source = Path(rocketmq_emulator.__file__).read_text()
    for_types, _, _ = source.partition("__all__ =")
    for name in rocketmq_emulator.__all__:
        assert re.search(rf"\b{name}\b", for_types), name


def test_a_name_that_is_not_there_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="rocketmq_emulator has no Consumer"):
        _ = rocketmq_emulator.Consumer


def test_a_message_loads_neither_trio_nor_a_broker() -> None:
    loaded = printed_by(
        "import sys; from rocketmq_emulator import Message\n"
        "rooms = {'rocketmq_emulator.broker', 'rocketmq_emulator.cluster'}\n"
        "print({'trio', 'structlog', *rooms} & {*sys.modules})"
    )
    assert loaded == "set()"


def test_a_producer_loads_no_broker() -> None:
    loaded = printed_by(
        "import sys; from rocketmq_emulator import Producer\n"
        "rooms = {'rocketmq_emulator.broker', 'rocketmq_emulator.cluster'}\n"
        "rooms.add('rocketmq_emulator.client.consumer')\n"
        "print(rooms & {*sys.modules})"
    )
    assert loaded == "set()"


SENDS_AND_PAUSES = """
import sys
import trio._core._run as scheduler
import rocketmq_emulator
from rocketmq_emulator.sync import Producer

before = dict(vars(scheduler))
with rocketmq_emulator.Cluster(brokers=1) as cluster:
    cluster.pause("broker-a")
    cluster.resume("broker-a")
    with Producer(namesrv=cluster.namesrv, group="shop") as producer:
        print(producer.send(rocketmq_emulator.Message("orders", b"1")).status.name)
print(before == vars(scheduler))
print([name for name in sys.modules if name.startswith("rocketmq_emulator.sim")])
"""
COMMANDS_AND_CLIENTS = """
import importlib, pkgutil, sys
import rocketmq_emulator.aio, rocketmq_emulator.sync, rocketmq_emulator.scenarios
import rocketmq_emulator.cli.app, rocketmq_emulator.cli.commands as commands
import rocketmq_emulator.testing.pytest_plugin, rocketmq_emulator.testing.rocketmq
for command in pkgutil.iter_modules(commands.__path__):
    importlib.import_module(f"{commands.__name__}.{command.name}")
for name in rocketmq_emulator.__all__:
    getattr(rocketmq_emulator, name)
print([name for name in sys.modules if name.startswith("rocketmq_emulator.sim")])
"""


def test_a_cluster_that_is_used_loads_no_virtual_world_and_leaves_trio_alone() -> None:
    assert printed_by(SENDS_AND_PAUSES).splitlines() == ["SEND_OK", "True", "[]"]


def test_public_names_and_commands_load_no_virtual_world() -> None:
    assert printed_by(COMMANDS_AND_CLIENTS) == "[]"


def test_a_cluster_is_given_the_fields_of_its_spec_by_name() -> None:
    assert issubclass(rocketmq_emulator.Cluster, EmbeddedCluster)
    with rocketmq_emulator.Cluster(brokers=1, release="5.3.3") as cluster:
        assert cluster.node_names == ("namesrv", "broker-a")
        assert cluster.spec.release == "5.3.3"


def test_the_version_is_that_of_the_project_file() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert importlib.metadata.version("rocketmq-emulator") == project["version"]
    assert rocketmq_emulator.__version__ == project["version"]


def test_the_package_says_that_it_is_typed() -> None:
    assert (ROOT / "rocketmq_emulator" / "py.typed").exists()


def programs() -> list[tuple[str, str]]:
    pages = [ROOT / "README.md", *(ROOT / "docs").glob("*.md")]
    shown = [
        (page.name, text)
        for page in pages
        for text in re.findall(
            r"^```python\n(.*?)^```$", page.read_text(), re.MULTILINE | re.DOTALL
        )
    ]
    return shown + [(path.name, path.read_text()) for path in (ROOT / "examples").glob("*.py")]


def test_pages_and_examples_import_from_the_public_package_only() -> None:
    found = programs()
    assert len(found) > 8
    inner = r"^(from|import) (emulator|protocol|scenarios|pipeline)\b"
    for where, text in found:
        assert not re.search(inner, text, re.MULTILINE), where
