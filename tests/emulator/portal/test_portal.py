"""The clients for threads and for asyncio have all public names of the trio client."""

from __future__ import annotations

import asyncio
import inspect
import subprocess
import sys

import pytest

import rocketmq_emulator
from rocketmq_emulator import Misuse, aio, sync
from tests.support.paths import ROOT
from tools import faces

CLIENTS = ("Producer", "PushConsumer", "PullConsumer", "LitePullConsumer")
HIDDEN = {"requeue", "instance", "loops", "pipeline"}  # used by other parts of the emulator


@pytest.mark.parametrize("name", faces.FACES)
def test_methods_are_those_of_the_trio_clients_of_today(name) -> None:
    written = faces.path(name).read_text()
    assert written == faces.text(name), "run python -m tools.faces"


def test_common_names_are_those_of_the_trio_client_of_today() -> None:
    assert faces.NAMES.read_text() == faces.names_text(), "run python -m tools.faces"


def public(client) -> set[str]:
    return {name for name in dir(client) if not name.startswith("_")} - HIDDEN


@pytest.mark.parametrize("face", [sync, aio])
@pytest.mark.parametrize("name", CLIENTS)
def test_every_public_name_of_a_trio_client_is_there_with_its_parameters(face, name) -> None:
    core, client = getattr(rocketmq_emulator, name), getattr(face, name)
    assert public(core) <= public(client)
    for method in public(core):
        if inspect.isfunction(getattr(core, method)):
            wanted = inspect.signature(getattr(core, method)).parameters
            assert inspect.signature(getattr(client, method)).parameters == wanted, method
            assert getattr(client, method).__doc__, method


@pytest.mark.parametrize("face", [sync, aio])
@pytest.mark.parametrize("name", CLIENTS)
def test_constructors_take_the_same(face, name) -> None:
    core, client = getattr(rocketmq_emulator, name), getattr(face, name)
    assert list(inspect.signature(client).parameters) == list(inspect.signature(core).parameters)


@pytest.mark.parametrize("face", [sync, aio])
def test_a_face_has_the_clients_names_and_those_of_errors_and_messages(face) -> None:
    for name in face.__all__:
        assert getattr(face, name)
    own = {*CLIENTS, "Requesting", "Sending", "ClientProcess", "Messages", "TransactionProducer"}
    for name in set(face.__all__) - own:
        assert getattr(face, name) is getattr(rocketmq_emulator, name)


def test_the_client_for_threads_loads_no_broker() -> None:
    code = "import sys, rocketmq_emulator.sync; print(*sys.modules)"
    loaded = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True
    )
    servers = ("rocketmq_emulator.broker", "rocketmq_emulator.cluster")
    assert not {name for name in loaded.stdout.split() if name.startswith(servers)}
    assert "asyncio" not in loaded.stdout.split()


def test_the_wrong_kind_of_with_says_which_is_right() -> None:
    with pytest.raises(Misuse, match=r"opened by async with Producer"), aio.Producer(group="g"):
        pass

    async def in_asyncio() -> None:
        async with sync.Producer(group="g"):
            pass

    with pytest.raises(Misuse, match=r"opened by with Producer"):
        asyncio.run(in_asyncio())
