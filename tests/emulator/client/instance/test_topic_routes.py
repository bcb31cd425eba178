"""Route queries of a client, their answers, and the producers and consumers that get them."""

from __future__ import annotations

from types import SimpleNamespace

import msgspec
import pytest
import trio

from rocketmq_emulator.client.instance.topic_routes import (
    REFUSALS_KEPT_MAX,
    BrokerAddresses,
    TopicRoutes,
)
from rocketmq_emulator.client.settings.config import ClientConfig
from rocketmq_emulator.errors.call_errors import ClientErrorCode, NeverSent, NoAnswer, NoNameServer
from rocketmq_emulator.facts import RouteChanged, RouteQueriesFailing, RouteQueriesRecovered
from rocketmq_emulator.protocol.bodies.body import encode_body
from rocketmq_emulator.protocol.bodies.routes import (
    BrokerData,
    QueueData,
    TopicList,
    TopicRouteData,
)
from rocketmq_emulator.protocol.catalog import GET_ALL_TOPIC_LIST_FROM_NAMESERVER
from rocketmq_emulator.protocol.codes import ResponseCode
from rocketmq_emulator.protocol.command import RemotingCommand
from rocketmq_emulator.protocol.queues import MessageQueue
from rocketmq_emulator.settings.releases import R_4_9_7

DEFAULT = "TBW102"


def a_route(broker="a", queues=2, slave=None) -> TopicRouteData:
    data = QueueData(broker_name=broker, read_queue_nums=queues, write_queue_nums=queues, perm=6)
    addresses = {0: f"{broker}:0"} | ({} if slave is None else {1: slave})
    return TopicRouteData(
        queue_datas=[data],
        broker_datas=[BrokerData(cluster="c", broker_name=broker, broker_addrs=addresses)],
    )


class NameServers:
    """The list of NameServers and the connection: ``answers`` by topic, ``errors`` by address."""

    def __init__(self, *addresses) -> None:
        self.addresses = addresses or ("n1", "n2")
        self.errors = {}
        self.answers = {}
        self.topics = []  # None: the request for them gets no answer
        self.asked = []
        self.chosen = []

    def candidates(self, is_connected):
        assert is_connected == self.is_connected
        return list(self.addresses)

    def choose(self, address) -> None:
        self.chosen.append(address)

    def is_connected(self, address) -> bool:
        return False

    async def invoke(self, address, rpc, request, *, timeout_ms):
        if rpc is GET_ALL_TOPIC_LIST_FROM_NAMESERVER:
            return self._all_topics(address, timeout_ms)
        self.asked.append((address, request.topic, timeout_ms))
        await trio.lowlevel.checkpoint()
        if address in self.errors:
            raise self.errors[address]
        route = self.answers.get(request.topic)
        if isinstance(route, RemotingCommand):
            return route
        if route is None:
            return RemotingCommand(code=ResponseCode.TOPIC_NOT_EXIST)
        body = route if isinstance(route, bytes) else encode_body(route, R_4_9_7)
        return RemotingCommand(code=0, body=body)

    def _all_topics(self, address, timeout_ms):
        self.asked.append((address, "all topics", timeout_ms))
        if self.topics is None:
            raise NoAnswer(address, "no answer")
        body = encode_body(TopicList(topic_list=self.topics), R_4_9_7)
        return RemotingCommand(code=0, body=body)


class Membership:
    """Producers and consumers of an instance, and the topics without a route."""

    def __init__(self, *topics) -> None:
        self._topics = topics
        self.lacking = set()
        self.given = []
        self.producers = {"p": SimpleNamespace(take_route=lambda *g: self.given.append(("p", *g)))}
        self.consumers = {
            name: SimpleNamespace(
                subscribes=lambda topic, own=topic: topic == own,
                take_route=lambda *g, name=name: self.given.append((name, *g)),
            )
            for name, topic in (("c", "t"), ("d", "u"))
        }

    def topics(self):
        return list(self._topics)

    def needs_route(self, topic):
        return topic in self.lacking


class Client:
    """The routes of one instance, and the objects that they use."""

    def __init__(self, *topics, servers=None, lists_topics=False) -> None:
        self.servers = servers or NameServers()
        self.members = Membership(*topics)
        self.brokers = BrokerAddresses()
        self.facts = []
        self.now_ms = 0
        self.routes = TopicRoutes(
            ClientConfig(namesrv="n1:9876", api_timeout_ms=777, route_lock_wait_ms_max=500),
            self.servers,
            remoting=self.servers,
            brokers=self.brokers,
            members=self.members,
            note=self.facts.append,
            now_ms=lambda: self.now_ms,
            lists_topics=lists_topics,
        )


async def test_a_new_route_goes_to_producers_and_to_the_consumers_of_its_topic() -> None:
    client = Client()
    route = client.servers.answers["t"] = a_route(slave="a:1")
    assert await client.routes.refresh("t") is True
    assert client.routes.table == {"t": route}
    queues = frozenset(MessageQueue("t", "a", number) for number in range(2))
    assert client.members.given == [("p", "t", route), ("c", "t", queues)]
    assert list(client.brokers.all()) == [("a", 0, "a:0"), ("a", 1, "a:1")]
    assert client.facts == [RouteChanged("t", ("a",))]
    assert client.servers.asked == [("n1", "t", 777)]


async def test_a_route_that_did_not_change_is_given_to_those_who_lack_it_and_is_no_fact() -> None:
    client = Client()
    client.servers.answers["t"] = a_route()
    await client.routes.refresh("t")
    assert await client.routes.refresh("t") is False
    assert len(client.members.given) == 2
    client.members.lacking = {"t"}
    assert await client.routes.refresh("t") is True
    assert len(client.members.given) == 4
    assert len(client.facts) == 1


async def test_the_same_route_in_other_words_changes_nothing() -> None:
    client = Client()
    client.servers.answers["t"] = a_route()
    await client.routes.refresh("t")
    client.servers.answers["t"] = encode_body(a_route(), R_4_9_7).replace(b'":', b'": ')
    assert await client.routes.refresh("t") is False
    assert len(client.members.given) == 2


A_REFUSAL = RemotingCommand(code=1, body=encode_body(a_route(queues=9), R_4_9_7))


@pytest.mark.parametrize("answer", [None, b"", b"no route", A_REFUSAL])
async def test_an_answer_without_a_readable_route_changes_nothing(answer) -> None:
    client = Client()
    route = client.servers.answers["t"] = a_route()
    await client.routes.refresh("t")
    client.servers.answers["t"] = answer
    assert await client.routes.refresh("t") is False
    assert client.routes.table == {"t": route}


async def test_a_borrowed_route_is_the_default_topic_s_and_no_wider_than_wished() -> None:
    client = Client()
    client.servers.answers[DEFAULT] = a_route(queues=8)
    assert await client.routes.use_default_route("t", DEFAULT, 3) is True
    (data,) = client.routes.table["t"].queue_datas
    assert (data.read_queue_nums, data.write_queue_nums) == (3, 3)
    assert await client.routes.use_default_route("t", DEFAULT, 3) is False, "no change"


async def test_a_topic_whose_default_has_no_route_borrows_nothing() -> None:
    client = Client()
    assert await client.routes.use_default_route("t", DEFAULT, 3) is False
    assert client.routes.table == {}


async def test_an_own_route_after_a_borrowed_one_is_read_again() -> None:
    client = Client()
    client.servers.answers |= {"t": a_route(queues=2), DEFAULT: a_route(queues=8)}
    await client.routes.refresh("t")
    await client.routes.use_default_route("t", DEFAULT, 4)
    assert await client.routes.refresh("t") is True
    assert client.routes.table["t"].queue_datas[0].read_queue_nums == 2


async def test_the_next_name_server_is_asked_only_where_one_was_not_reached() -> None:
    client = Client(servers=NameServers("n1", "n2", "n3"))
    client.servers.answers["t"] = a_route()
    client.servers.errors = {"n1": NeverSent("n1", "refused")}
    assert await client.routes.refresh("t")
    assert client.servers.chosen == ["n1", "n2"]
    client.servers.errors |= {"n2": NoAnswer("n2", "silence")}
    with pytest.raises(NoNameServer) as failed:
        await client.routes.refresh("t")
    assert client.servers.chosen[2:] == ["n1", "n2"]
    assert failed.value.code == ClientErrorCode.NO_NAME_SERVER
    assert str(failed.value).endswith("answered for the route of t: n2: silence")


async def test_the_last_name_server_that_was_not_reached_is_named() -> None:
    client = Client()
    client.servers.errors = {name: NeverSent(name, "refused") for name in ("n1", "n2")}
    with pytest.raises(NoNameServer, match=r"no NameServer answered .* t: n2: refused"):
        await client.routes.refresh("t")


async def test_without_any_address_the_address_server_is_to_blame() -> None:
    client = Client()
    client.servers.addresses = ()
    with pytest.raises(NoNameServer, match=r"t: the address server has not named one$"):
        await client.routes.refresh("t")


async def test_a_round_of_polls_refreshes_every_topic_until_a_call_fails() -> None:
    client = Client("t", "u")
    await client.routes.poll()
    assert [topic for _, topic, _ in client.servers.asked] == ["t", "u"]
    client.servers.errors = {"n1": NoAnswer("n1", "silence")}
    await client.routes.poll()
    assert [topic for _, topic, _ in client.servers.asked] == ["t", "u", "t"]


async def test_addresses_that_no_route_names_are_forgotten() -> None:
    client = Client()
    for broker in ("a", "b"):
        client.servers.answers[f"t{broker}"] = a_route(broker, slave=f"{broker}:1")
        await client.routes.refresh(f"t{broker}")
    client.servers.answers["ta"] = a_route("a")
    await client.routes.refresh("ta")
    await client.routes.forget_offline_brokers()
    assert list(client.brokers.all()) == [("a", 0, "a:0"), ("b", 0, "b:0"), ("b", 1, "b:1")]


async def test_nothing_waits_for_the_route_lock_longer_than_its_limit(autojump_clock) -> None:
    client = Client("t")
    client.servers.answers = {"t": a_route(), DEFAULT: a_route()}
    client.brokers.put("gone", {0: "gone:0"})
    async with client.routes._locked() as is_locked:
        assert is_locked
        async with trio.open_nursery() as nursery:
            for call in (
                client.routes.poll,
                client.routes.forget_offline_brokers,
                lambda: client.routes.use_default_route("t", DEFAULT, 4),
            ):
                nursery.start_soon(call)
        assert trio.current_time() == 0.5
    assert client.servers.asked == []
    assert list(client.brokers.all()) == [("gone", 0, "gone:0")]
    assert await client.routes.refresh("t"), "the lock is free again"


async def test_who_waits_for_the_route_lock_gets_it(autojump_clock) -> None:
    client = Client()
    client.servers.answers["t"] = a_route()
    results = []

    async def refresh() -> None:
        results.append(await client.routes.refresh("t"))

    async with trio.open_nursery() as nursery, client.routes._locked():
        nursery.start_soon(refresh)
        await trio.sleep(0.4)
        assert results == []
    assert results == [True]
    async with client.routes._locked() as is_locked:
        assert is_locked


async def test_a_route_of_two_brokers_names_both() -> None:
    client = Client()
    one, two = a_route("a"), a_route("b")
    client.servers.answers["t"] = msgspec.structs.replace(
        one,
        queue_datas=one.queue_datas + two.queue_datas,
        broker_datas=one.broker_datas + two.broker_datas,
    )
    await client.routes.refresh("t")
    assert client.facts == [RouteChanged("t", ("a", "b"))]


async def test_a_route_names_the_brokers_of_which_it_has_slaves_only() -> None:
    client = Client()
    one, two = a_route("a"), a_route("b")
    slaves = msgspec.structs.replace(two.broker_datas[0], broker_addrs={1: "b:1"})
    client.servers.answers["t"] = msgspec.structs.replace(
        one, broker_datas=[*one.broker_datas, slaves]
    )
    await client.routes.refresh("t")
    assert client.facts == [RouteChanged("t", ("a", "b"), ("b",))]


async def test_a_poll_that_nobody_answers_is_told_once_and_its_end_once() -> None:
    client = Client("t")
    client.servers.answers["t"] = a_route()
    for address in ("n1", "n2"):
        client.servers.errors[address] = NeverSent(address, "refused")
    for client.now_ms in (1_000, 31_000, 61_000):
        await client.routes.poll()
    failing = RouteQueriesFailing("n2: refused", since_ms=1_000, retry_ms=30_000)
    assert client.facts == [failing]
    del client.servers.errors["n2"]
    for client.now_ms in (91_000, 121_000):
        await client.routes.poll()
    recovered = RouteQueriesRecovered("n2", failing_for_ms=90_000)
    assert client.facts[1:] == [recovered, RouteChanged("t", ("a",))]
    client.servers.errors["n2"] = NoAnswer("n2", "silence")
    await client.routes.poll()
    assert [type(fact) for fact in client.facts[3:]] == [RouteQueriesFailing]


async def test_a_failure_that_its_caller_is_told_is_no_warning_too() -> None:
    client = Client()
    client.servers.errors = {name: NeverSent(name, "refused") for name in ("n1", "n2")}
    with pytest.raises(NoNameServer):
        await client.routes.refresh("t")
    assert client.facts == []


async def test_an_answer_that_has_no_route_is_an_answer() -> None:
    client = Client("t")
    client.servers.errors = {name: NeverSent(name, "refused") for name in ("n1", "n2")}
    await client.routes.poll()
    client.servers.errors = {}
    await client.routes.poll()
    assert [type(fact) for fact in client.facts] == [RouteQueriesFailing, RouteQueriesRecovered]


# Why there is no route ------------------------------------------------------------------


async def test_one_request_for_all_topics_finds_the_name_that_was_meant() -> None:
    client = Client(lists_topics=True)
    client.servers.topics = ["TBW102", "orders"]
    await client.routes.refresh("order")
    assert "did you mean orders?" in await client.routes.why_none("order")
    assert client.servers.asked == [("n1", "order", 777), ("n1", "all topics", 1_000)]


async def test_without_lists_topics_an_error_sends_no_request() -> None:
    client = Client()
    client.servers.topics = ["orders"]
    await client.routes.refresh("order")
    assert "n1 does not know it" in await client.routes.why_none("order")
    assert client.servers.asked == [("n1", "order", 777)]


async def test_a_broker_asked_for_a_route_is_not_asked_for_topics() -> None:
    client = Client(lists_topics=True)
    client.servers.answers["order"] = RemotingCommand(code=3, remark="not supported")
    await client.routes.refresh("order")
    assert "n1 is no NameServer" in await client.routes.why_none("order")
    assert client.servers.asked == [("n1", "order", 777)]


async def test_without_an_answer_to_the_list_the_error_has_both_causes() -> None:
    client = Client(lists_topics=True)
    client.servers.topics = None
    await client.routes.refresh("order")
    assert "no broker is registered there, or the name" in await client.routes.why_none("order")


async def test_a_route_that_came_later_ends_the_refusal_and_few_refusals_are_kept() -> None:
    client = Client()
    await client.routes.refresh("t")
    client.servers.answers["t"] = a_route()
    await client.routes.refresh("t")
    assert "no answer about its route" in await client.routes.why_none("t")
    for number in range(REFUSALS_KEPT_MAX + 1):
        await client.routes.refresh(f"u{number}")
    assert "no answer about its route" in await client.routes.why_none("u0")
    assert "does not know it" in await client.routes.why_none("u1")
