"""Every exception has a family, or a reason to have none; users catch exceptions by family."""

from __future__ import annotations

import ast
import builtins
import copy
import pickle
import re
import subprocess
import sys
import traceback
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest

import rocketmq_emulator
from rocketmq_emulator import (
    CannotDo,
    CannotDoHere,
    ClientError,
    Cluster,
    DamagedData,
    MaybeStored,
    Message,
    MessageIllegal,
    Misuse,
    MisusesFound,
    NobodyAnswered,
    NoBrokerAnswered,
    NodeDied,
    NoNameServer,
    NoRoute,
    NotReady,
    NotStarted,
    RefusedByServer,
    ReplyRule,
    ReplyRuleRefused,
    RequestCode,
    ResponseCode,
    UnknownNode,
)
from rocketmq_emulator.disk.port import StoreDamaged
from rocketmq_emulator.protocol.error_families import Picklable, public
from rocketmq_emulator.sync import Producer, PullConsumer
from rocketmq_emulator.testing.rocketmq import RocketMQ
from tests.support.free_ports import free_port
from tests.support.import_graph import ROOT, paths

FAMILIES = (Misuse, RefusedByServer, NobodyAnswered, CannotDoHere, DamagedData)
NAMES = frozenset(family.__name__ for family in FAMILIES)
BASES = {  # base classes of all errors of one kind of call: never raised; subclasses have families
    "ClientError": "any use of a client",
    "SendError": "any send",
    "NotStored": "any send that stored nothing",
    "RecallFailed": "any recall",
    "GroupCallRefused": "any call of a consumer",
    "AdminError": "any call of a tool",
    "SourceError": "any read or write of the Spark source",
    "NotSent": "any write of the Spark source",
}
WITHOUT_FAMILY = BASES | {  # each with the reason
    # Control flow that no user can catch:
    "LogEnd": "ends a scan of the log, for the code that began it",
    "NoForks": "caught by the code that forks, in a file that only loads the standard library",
    "PlannedFailure": "raised by the listener of a scenario because its plan says so",
    "RunStopped": "a signal ends a run, caught by the code that runs it",
    "StopRequested": "a signal ends a command: a BaseException, so that nothing else holds it",
    "_NotRewritten": "one reader of JSON leaves the text to the next",
    "_TookTooLong": "a signal ends an answer: a BaseException, so that nothing else holds it",
}
COLUMNS = 6  # of the table on the page, with the empty first and last ones
NAME = re.compile(r"`(\w+)`")
ROOTS_MAX = 15  # classes that derive only from Python's exceptions


# The classes ------------------------------------------------------------------------------


class ExceptionClass(NamedTuple):
    name: str
    bases: tuple[str, ...]
    place: str
    is_public: bool


def python_errors() -> set[str]:
    found = {name for name, value in vars(builtins).items() if isinstance(value, type)}
    return {name for name in found if issubclass(getattr(builtins, name), BaseException)}


@cache
def classes_and_calls() -> tuple[list[ExceptionClass], list[tuple[str, str]]]:
    """All classes in the sources of the packages, and the places and names of all calls."""
    classes: list[ExceptionClass] = []
    calls: list[tuple[str, str]] = []
    for path in paths():
        for node in ast.walk(ast.parse((ROOT / path).read_text())):
            if isinstance(node, ast.ClassDef):
                bases = tuple(ast.unparse(base).rsplit(".", 1)[-1] for base in node.bases)
                is_public = any(ast.unparse(one) == "public" for one in node.decorator_list)
                place = f"{path}:{node.lineno}"
                classes.append(ExceptionClass(node.name, bases, place, is_public))
            elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
                calls.append((f"{path}:{node.lineno}", node.func.id))
    return classes, calls


@cache
def exception_classes() -> dict[str, ExceptionClass]:
    """All exception classes of the packages, by name, read from the sources."""
    classes: dict[str, list[ExceptionClass]] = {}
    for each in classes_and_calls()[0]:
        classes.setdefault(each.name, []).append(each)
    errors = python_errors() | {"ValidationError"}  # msgspec's
    found: dict[str, ExceptionClass] = {}
    while more := [
        one
        for name, ones in classes.items()
        for one in ones
        if name not in found and not errors.isdisjoint(one.bases)
    ]:
        for one in more:
            assert one.name not in found, f"{one.place}: {found[one.name].place} has the same name"
            found[one.name] = one
        errors |= found.keys()
    assert len(found) > 100
    return found


def families_of(name: str, classes: dict[str, ExceptionClass]) -> frozenset[str]:
    if name in NAMES:
        return frozenset({name})
    bases = classes[name].bases if name in classes else ()
    return frozenset().union(*(families_of(base, classes) for base in bases))


def test_every_exception_has_one_family_or_a_reason_to_have_none() -> None:
    classes = exception_classes()
    for name, one in classes.items():
        families = families_of(name, classes)
        if name in WITHOUT_FAMILY:
            assert not families, f"{one.place}: {name} has a family: remove its reason"
        else:
            assert len(families) == 1, (
                f"{one.place}: {name} has {sorted(families)}, not one family"
            )
    assert WITHOUT_FAMILY.keys() <= classes.keys()


def test_an_exception_without_a_family_for_users_is_a_base_and_never_raised() -> None:
    for place, name in classes_and_calls()[1]:
        assert name not in BASES, f"{place}: {name} is a base"


def test_few_exceptions_have_no_base_of_ours() -> None:
    classes = exception_classes()
    roots = sorted(name for name, one in classes.items() if classes.keys().isdisjoint(one.bases))
    assert set(roots) <= NAMES | WITHOUT_FAMILY.keys()
    assert len(roots) <= ROOTS_MAX, roots


def test_the_page_has_each_family_with_members_of_it() -> None:
    classes = exception_classes()
    rows = [line.split("|") for line in (ROOT / "docs/client.md").read_text().splitlines()]
    shown = {row[1].strip(" `"): NAME.findall(row[4]) for row in rows if len(row) == COLUMNS}
    assert shown.keys() >= NAMES
    for family in NAMES:
        assert len(shown[family]) > 1
        for member in shown[family]:
            assert families_of(member, classes) == {family}, f"{member} is in the row of {family}"


# Public exceptions ------------------------------------------------------------------------


def public_exceptions() -> list[type[BaseException]]:
    values = [getattr(rocketmq_emulator, name) for name in rocketmq_emulator.__all__]
    return [one for one in values if isinstance(one, type) and issubclass(one, BaseException)]


def test_public_exceptions_have_the_module_where_users_find_them() -> None:
    exported = {kind.__name__ for kind in public_exceptions()}
    assert {family.__name__ for family in FAMILIES} <= exported
    assert {one.name for one in exception_classes().values() if one.is_public} == exported
    for kind in public_exceptions():
        assert kind.__module__ == "rocketmq_emulator", kind
        assert getattr(rocketmq_emulator, kind.__qualname__) is kind


SAMPLES: tuple[BaseException, ...] = (
    CannotDo("embedded", "power_off", "broker-a"),
    NodeDied("broker-a", 1, ["no room"]),
    NotReady(30.0, ["broker-a"]),
    NotStarted("a cluster"),
    MisusesFound("single_bar: …"),
    ReplyRuleRefused("broker-a", 1, "not allowed"),
    UnknownNode("brokr-a", ["broker-a"], near="broker-a"),
)


@pytest.mark.parametrize("kind", public_exceptions(), ids=lambda kind: kind.__name__)
def test_public_exceptions_are_pickled_and_copied_with_all_they_carry(
    kind: type[BaseException],
) -> None:
    samples = [one for one in SAMPLES if type(one) is kind] or [kind("why")]
    for error in samples:
        pickled = pickle.loads(pickle.dumps(error))  # noqa: S301  # our own bytes
        for again in (pickled, copy.copy(error)):
            assert type(again) is kind
            assert str(again) == str(error)
            assert vars(again) == vars(error)


def test_an_error_keeps_its_errno_and_file_when_it_is_pickled() -> None:
    class Taken(CannotDoHere, OSError):
        pass

    error = Taken(98, "in use", "socket")
    assert isinstance(error, Picklable)
    assert (error.errno, error.filename) == (98, "socket")
    assert copy.copy(error).__dict__ == {}
    assert (copy.copy(error).errno, copy.copy(error).filename) == (98, "socket")


RAISED_BEFORE_ITS_NAME_IS_USED = """
from rocketmq_emulator.errors.call_errors import NoRoute
raise NoRoute("no queue of orders can be written")
"""
HEAVY = ("trio", "rocketmq_emulator.broker", "rocketmq_emulator.cluster", "rocketmq_emulator.sim")
LOADED_BY_A_PICKLE = f"""
import pickle, sys
error = pickle.loads(sys.stdin.buffer.read())
print(type(error).__module__, error.code, error.brokers)
print([name for name in {HEAVY!r} if name in sys.modules])
"""


def in_another_process(code: str, given: bytes = b"") -> tuple[str, str]:
    ended = subprocess.run(
        [sys.executable, "-c", code], input=given, capture_output=True, cwd=ROOT, check=False
    )
    return ended.stdout.decode(), ended.stderr.decode()


def test_a_traceback_has_the_public_name() -> None:
    _, shown = in_another_process(RAISED_BEFORE_ITS_NAME_IS_USED)
    last = "rocketmq_emulator.NoRoute: no queue of orders can be written"
    assert shown.rstrip().splitlines()[-1] == last
    error = NoRoute("no queue")
    assert traceback.format_exception_only(error) == ["rocketmq_emulator.NoRoute: no queue\n"]


def test_a_pickle_is_read_in_a_process_that_loaded_nothing_else() -> None:
    error = NoRoute("no queue", code=10005, brokers=["broker-a"])
    out, shown = in_another_process(LOADED_BY_A_PICKLE, pickle.dumps(error))
    assert out.splitlines() == ["rocketmq_emulator 10005 ('broker-a',)", "[]"], shown


def test_a_class_keeps_its_own_module_unless_it_is_public() -> None:
    class Inner(Misuse):
        pass

    assert Inner.__module__ == __name__
    assert public(Inner).__module__ == "rocketmq_emulator"


def test_client_errors_are_still_what_users_catch_them_as() -> None:
    for kind in (NoRoute, NoNameServer, MaybeStored, MessageIllegal):
        assert issubclass(kind, ClientError)
    assert issubclass(MessageIllegal, ValueError)
    assert not issubclass(NodeDied, ClientError)


# Over a cluster ---------------------------------------------------------------------------


@pytest.fixture(scope="module")
def cluster():
    settings = {"auto_create_topic": False}
    with RocketMQ(topics=["orders"], brokers=1, broker_settings=settings) as cluster:
        yield cluster


@pytest.fixture
def producer(cluster):
    with Producer(namesrv=cluster.namesrv, group="families", sync_retries=0) as producer:
        yield producer


def test_misuse_is_one_family_over_a_cluster(cluster, producer) -> None:
    with pytest.raises(Misuse) as caught:
        producer.send(Message("no such topic!", b"x"))
    assert isinstance(caught.value, MessageIllegal)
    with pytest.raises(Misuse) as caught:
        cluster.kill("brokr-a")
    assert isinstance(caught.value, UnknownNode)


@pytest.mark.parametrize(
    ("topic", "why"),
    [("order", "did you mean orders?"), ("zebra", "autoCreateTopicEnable is off")],
)
def test_an_unknown_topic_is_told_from_dead_brokers_over_a_cluster(producer, topic, why) -> None:
    with pytest.raises(RefusedByServer, match="nothing was sent") as caught:
        producer.send(Message(topic, b"x"))
    assert why in str(caught.value)


def test_a_broker_given_as_name_server_is_named_over_a_cluster(cluster) -> None:
    broker = cluster.brokers["broker-a"]
    with (
        Producer(namesrv=broker, group="families", sync_retries=0) as producer,
        PullConsumer(namesrv=broker, group="pulls") as consumer,
    ):
        with pytest.raises(RefusedByServer) as sent:
            producer.send(Message("orders", b"x"))
        with pytest.raises(RefusedByServer) as asked:
            consumer.fetch_subscribe_message_queues("orders")
    for caught in (sent, asked):
        assert f"the server at {broker} is no NameServer" in str(caught.value)


def refuse(cluster, code: int, error_code: int) -> None:
    """Make the broker answer the next request with *code* with *error_code*."""
    cluster.set_reply_rule("broker-a", ReplyRule(code=code, count=1, error_code=error_code))


def test_refusals_of_servers_are_one_family_over_a_cluster(cluster, producer) -> None:
    with pytest.raises(RefusedByServer) as caught:
        producer.send(Message("nobody-made-it", b"x"))
    assert isinstance(caught.value, NoRoute)
    refuse(cluster, RequestCode.SEND_MESSAGE_V2, ResponseCode.NO_PERMISSION)
    with pytest.raises(RefusedByServer) as caught:
        producer.send(Message("orders", b"x"))
    assert caught.value.code == ResponseCode.NO_PERMISSION
    with PullConsumer(namesrv=cluster.namesrv, group="pulls") as consumer:
        (queue, *_) = consumer.fetch_subscribe_message_queues("orders")
        refuse(cluster, RequestCode.GET_MAX_OFFSET, ResponseCode.SYSTEM_ERROR)
        with pytest.raises(RefusedByServer) as caught:
            consumer.max_offset(queue)
    assert caught.value.code == ResponseCode.SYSTEM_ERROR


def test_silence_is_one_family_and_says_whether_it_is_definite(cluster, producer) -> None:
    producer.send(Message("orders", b"x"))
    cut = ReplyRule(code=RequestCode.SEND_MESSAGE_V2, count=1, cut_connection=True)
    cluster.set_reply_rule("broker-a", cut)
    with pytest.raises(NobodyAnswered) as caught:
        producer.send(Message("orders", b"x"))
    assert isinstance(caught.value, MaybeStored)
    assert not caught.value.definite
    cluster.kill("broker-a")
    try:
        with pytest.raises(NobodyAnswered) as caught:
            producer.send(Message("orders", b"x"))
        assert isinstance(caught.value, NoBrokerAnswered)
        assert caught.value.definite
    finally:
        cluster.restart("broker-a")


def test_no_name_server_is_silence() -> None:
    with (
        Producer(namesrv=f"127.0.0.1:{free_port()}", group="lost") as producer,
        pytest.raises(NobodyAnswered) as caught,
    ):
        producer.send(Message("orders", b"x"))
    assert isinstance(caught.value, NoNameServer)
    assert caught.value.definite


def test_what_a_world_cannot_do_is_one_family(cluster) -> None:
    with pytest.raises(CannotDoHere) as caught:
        cluster.power_off("broker-a")
    assert isinstance(caught.value, CannotDo)
    with Cluster(brokers=0) as second, pytest.raises(CannotDoHere, match="is in use"):
        Cluster(brokers=0, port=int(second.namesrv.rsplit(":", 1)[1])).__enter__()


def test_a_damaged_store_is_damaged_data(tmp_path: Path) -> None:
    config = tmp_path / "broker-a/config"
    config.mkdir(parents=True)
    (config / "queueFloors.json").write_text("{")
    with pytest.raises(DamagedData) as caught, Cluster(brokers=1, store=str(tmp_path)):
        pass
    assert isinstance(caught.value, StoreDamaged)
