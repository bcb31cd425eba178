"""An address server: its URL, its answers, and failures."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest
import trio

from rocketmq_emulator.client import Producer
from rocketmq_emulator.cluster.spec import ClusterSpec
from rocketmq_emulator.cluster.worlds.embedded import EmbeddedCluster
from rocketmq_emulator.facts import AddressServerFailed, Fact, NameServersChanged
from rocketmq_emulator.net.address_server import AddressServer, HttpFailed, addresses_in, url_of
from rocketmq_emulator.net.lookups import ThreadedHttpFetcher
from rocketmq_emulator.protocol.messages.message import Message


@contextmanager
def a_local_server(status: int, body: str) -> Iterator[tuple[str, list[str]]]:
    """Yields its "host:port", and the requested paths."""
    paths: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            paths.append(self.path)
            self.send_response(status)
            self.end_headers()
            self.wfile.write(body.encode())

        def log_message(self, *_: object) -> None:
            """Nothing is logged."""

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield f"127.0.0.1:{server.server_port}", paths
        finally:
            server.shutdown()
            thread.join()


class Answers:
    """A fake HTTP fetcher: ``get`` returns the next answer, or raises it if it is an error."""

    def __init__(self, *answers: str | HttpFailed) -> None:
        self.answers = list(answers)

    async def get(self, _url: str, _timeout_ms: int) -> str:
        answer = self.answers.pop(0)
        if isinstance(answer, HttpFailed):
            raise answer
        return answer


@pytest.mark.parametrize(
    ("domain", "subgroup", "unit", "url"),
    [
        ("names.local", "nsaddr", "", "http://names.local:8080/rocketmq/nsaddr"),
        ("names.local:80", "nsaddr", "", "http://names.local:80/rocketmq/nsaddr"),
        ("names.local", "test", "", "http://names.local:8080/rocketmq/test"),
        ("names.local", "nsaddr", "u1", "http://names.local:8080/rocketmq/nsaddr-u1?nofix=1"),
    ],
)
def test_the_url_is_upstream_s(domain: str, subgroup: str, unit: str, url: str) -> None:
    assert url_of(domain, subgroup, unit) == url


@pytest.mark.parametrize(
    ("text", "addresses"),
    [
        ("a:1;b:2", ("a:1", "b:2")),
        ("\r\n a:1 ;\r\nb:2\n", ("a:1",)),
        (" \n", ()),
        ("", ()),
    ],
)
def test_the_first_line_of_an_answer_counts(text: str, addresses: tuple[str, ...]) -> None:
    assert addresses_in(text) == addresses


async def test_a_list_is_kept_when_the_next_one_fails_and_replaced_when_it_differs() -> None:
    facts: list[Fact] = []
    lists: list[tuple[str, ...]] = []
    http = Answers("a:1;b:2", "b:2;a:1", HttpFailed("HTTP status 500"), "", "c:3")
    server = AddressServer("http://names", http, facts.append, lists.append)
    for _ in range(5):
        await server.fetch()
    assert lists == [("a:1", "b:2"), ("c:3",)]
    assert facts == [
        NameServersChanged("http://names", ("a:1", "b:2")),
        AddressServerFailed("http://names", "HTTP status 500"),
        AddressServerFailed("http://names", "the answer names no address"),
        NameServersChanged("http://names", ("c:3",)),
    ]


async def test_a_local_http_server_is_asked_for_the_path_of_the_unit() -> None:
    with a_local_server(200, "127.0.0.1:9876\n") as (address, paths):
        assert (
            await ThreadedHttpFetcher().get(url_of(address, "test", "u1"), 3_000)
            == "127.0.0.1:9876\n"
        )
    assert paths == ["/rocketmq/test-u1?nofix=1"]


async def test_another_status_is_a_failure() -> None:
    with (
        a_local_server(404, "127.0.0.1:9876") as (address, _),
        pytest.raises(HttpFailed, match="404"),
    ):
        await ThreadedHttpFetcher().get(url_of(address), 3_000)


async def test_a_server_that_says_nothing_is_a_failure_after_the_timeout() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = url_of(f"127.0.0.1:{silent.getsockname()[1]}")
        with pytest.raises(HttpFailed, match="timed out"):
            await ThreadedHttpFetcher().get(url, 50)


async def test_no_server_is_a_failure() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    with pytest.raises(HttpFailed, match="refused"):
        await ThreadedHttpFetcher().get(url_of(f"127.0.0.1:{port}"), 3_000)


def test_a_client_finds_its_cluster_by_a_local_http_server(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def send_one(address: str) -> bool:
        async with Producer(namesrv="", namesrv_domain=address, group="shop") as producer:
            return (await producer.send(Message("T", b"x"))).is_ok

    monkeypatch.delenv("NAMESRV_ADDR", raising=False)
    with (
        EmbeddedCluster(ClusterSpec(brokers=1)) as cluster,
        a_local_server(200, cluster.namesrv) as (address, paths),
    ):
        assert trio.run(send_one, address)
    assert paths == ["/rocketmq/nsaddr"]
