"""Without a configured NameServer, clients and brokers use the list of an address server."""

from __future__ import annotations

import msgspec
import pytest
import trio

from rocketmq_emulator.client import ClientConfig, ClientProcess, NoNameServer, Producer
from rocketmq_emulator.cluster.spec import ClusterSpec
from rocketmq_emulator.cluster.worlds.virtual import VirtualCluster
from rocketmq_emulator.net.address_server import HttpFailed
from rocketmq_emulator.protocol.messages.message import Message
from rocketmq_emulator.settings.config import BrokerConfig
from rocketmq_emulator.sim.world import VirtualWorld, run_virtual


class Names:
    """An HTTP server that lists ``namesrv``, or fails; it records its requests in ``asked``."""

    def __init__(self, world: VirtualWorld) -> None:
        self.namesrv = ""
        self.asked: list[tuple[int, str]] = []
        self.began_ms = world.now_ms()
        self._world = world

    async def get(self, url: str, _timeout_ms: int) -> str:
        await trio.lowlevel.checkpoint()
        self.asked.append(((self._world.now_ms() - self.began_ms) // 1000, url))
        if not self.namesrv:
            raise HttpFailed("HTTP status 503")
        return self.namesrv


def test_a_client_asks_at_start_after_ten_seconds_and_then_every_two_minutes() -> None:
    async def main(world: VirtualWorld) -> list[tuple[int, str]]:
        cluster = VirtualCluster(world, ClusterSpec(name_servers=2, brokers=1))
        names = Names(world)
        cluster.http = names
        await cluster.start()
        first, second = (cluster.addresses[name] for name in cluster.spec.name_server_names)
        used: list[str] = []

        async def program(process: ClientProcess) -> None:
            began_s = trio.current_time()
            settings = {"namesrv": "", "namesrv_domain": "names.local", "group": "shop"}
            async with Producer(process=process, **settings) as producer:
                try:
                    await producer.send(Message("T", b"x"))
                except NoNameServer:
                    used.append("none")
                names.namesrv = first
                await trio.sleep_until(began_s + 11)
                await producer.send(Message("T", b"x"))
                used.append(producer.instance.name_servers.chosen or "")
                names.namesrv = second
                await trio.sleep_until(began_s + 131)
                cluster.kill("namesrv-a")
                await producer.send(Message("U", b"x"))
                used.append(producer.instance.name_servers.chosen or "")
                names.namesrv = ""
                await trio.sleep_until(began_s + 251)
                await producer.send(Message("V", b"x"))
                used.append(producer.instance.name_servers.chosen or "")

        names.began_ms = world.now_ms()
        await cluster.start_client("sender", program).wait_ended()
        assert used == ["none", first, second, second]
        return names.asked

    url = "http://names.local:8080/rocketmq/nsaddr"
    assert run_virtual(main, seed=1) == [(0, url), (10, url), (130, url), (250, url)]


def test_a_broker_registers_where_its_address_server_says_and_goes_on_when_that_fails() -> None:
    lines: list[bytes] = []
    settings = {
        "namesrv": (),
        "fetch_namesrv": True,
        "address_server_domain": "names.local:80",
        "address_server_subgroup": "test",
    }

    async def main(world: VirtualWorld) -> tuple[list[tuple[int, str]], str]:
        spec = ClusterSpec(brokers=1, broker_settings=settings)
        cluster = VirtualCluster(world, spec, lines.append)
        names = cluster.http = Names(world)
        names.namesrv = cluster.namesrv
        await cluster.start()
        await trio.sleep(125)
        names.namesrv = ""
        await trio.sleep(60)
        return names.asked, cluster.namesrv

    asked, namesrv = run_virtual(main, seed=1)
    url = "http://names.local:80/rocketmq/test"
    assert asked == [(10, url), (130, url)]
    facts = [msgspec.json.decode(line)["fact"] for line in lines]
    rounds = [fact["accepted"] for fact in facts if fact["kind"] == "RegisteredWith"]
    assert [namesrv] in rounds
    assert rounds[-1] == [namesrv], "it also registers after the failure"
    assert [f["kind"] for f in facts if "AddressServer" in f["kind"]] == ["AddressServerFailed"]


@pytest.mark.parametrize(
    ("kind", "settings"),
    [
        (ClientConfig, {"namesrv": ""}),
        (BrokerConfig, {"fetch_namesrv": True}),
    ],
)
def test_nobody_is_asked_for_whom_no_server_is_configured(kind: type, settings: dict) -> None:
    with pytest.raises(ValueError, match="domain"):
        kind(**settings)


def test_namesrv_addr_of_the_environment_stands_before_an_address_server() -> None:
    async def main(world: VirtualWorld) -> list[tuple[int, str]]:
        cluster = VirtualCluster(world, ClusterSpec(brokers=1))
        names = Names(world)
        await cluster.start()
        host = world.network.host("app")
        process = ClientProcess(network=host, http=names, default_namesrv=cluster.namesrv)
        async with process:
            settings = {"namesrv": "", "namesrv_domain": "names.local", "group": "shop"}
            async with Producer(process=process, **settings) as producer:
                await producer.send(Message("T", b"x"))
        return names.asked

    assert run_virtual(main, seed=1) == []


def test_a_process_takes_namesrv_addr_from_its_environment(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def main(_world: VirtualWorld) -> str:
        return ClientProcess().default_namesrv

    monkeypatch.setenv("NAMESRV_ADDR", "10.0.0.7:9876")
    assert run_virtual(main, seed=1) == "10.0.0.7:9876"
