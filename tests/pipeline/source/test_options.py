"""Options of the source: their values, and the errors about wrong ones."""

from __future__ import annotations

import pytest

from rocketmq_emulator.pipeline.source.errors import BadOption
from rocketmq_emulator.pipeline.source.options import PlaceInQueues, source_options

ADDRESS = {"namesrv": "127.0.0.1:9876", "topic": "orders"}


def test_names_are_taken_in_any_spelling_of_capitals() -> None:
    given = {"NameSrv": "a:1;b:2", "TOPIC": "x, y,x", "maxoffsetspertrigger": "7"}
    found = source_options(given)
    assert found.namesrv == ("a:1", "b:2")
    assert found.topics == ("x", "y")
    assert found.offsets_per_trigger_max == 7


@pytest.mark.parametrize(
    ("text", "where"),
    [
        ("earliest", PlaceInQueues("earliest")),
        ("LATEST", PlaceInQueues("latest")),
        ("1763800000000", PlaceInQueues(at_ms=1763800000000)),
        ("1970-01-01T00:00:01Z", PlaceInQueues(at_ms=1000)),
        ("1970-01-01 00:00:01.5", PlaceInQueues(at_ms=1500)),
        ('{"t": {"b": {"0": 23, "1": -2}}}', PlaceInQueues(offsets={"t": {"b": {0: 23, 1: -2}}})),
        (
            '{"version": 1, "queues": {"t": {"b": {"0": 3}}}, "lost": 0}',
            PlaceInQueues(offsets={"t": {"b": {0: 3}}}),
        ),
    ],
)
@pytest.mark.parametrize(("name", "field"), [("start", "start"), ("endingOffsets", "end")])
def test_a_place_is_a_name_a_time_or_offsets(name, field, text, where) -> None:
    assert getattr(source_options({**ADDRESS, name: text}), field) == where


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"topik": "x"}, "no option 'topik': did you mean topic?"),
        ({"startOffsets": "x"}, "did you mean startingOffsets?"),
        ({"subscribe": "x"}, "did you mean topic?"),
        ({"kafka.bootstrap.servers": "x"}, "did you mean namesrv?"),
        ({"zzz": "1"}, "there are namesrv, topic, group"),
        ({"startingOffsets": "soon"}, "earliest, latest, a time .* or offsets such as .*'soon'"),
        ({"startingOffsets": '{"orders": 3}'}, "as JSON is topic, broker, queue id and offset"),
        ({"start": "latest", "startingOffsets": "latest"}, "are one option: leave one of them"),
        ({"minPartitions": "few"}, "minPartitions is a whole number of at least 1, not 'few'"),
        ({"maxOffsetsPerTrigger": "0"}, "at least 1, not '0'"),
        ({"failOnDataLoss": "no"}, "failOnDataLoss is true or false, not 'no'"),
        ({"tags": "||"}, r"tags are '\*' or 'TagA \|\| TagB'"),
        ({"sql": "price >"}, "sql is an SQL92 expression, not 'price >': .* Encountered"),
        ({"sql": ""}, "sql is an SQL92 expression"),
        ({"sql": "price > 5", "tags": "*"}, "tags and sql cannot be combined"),
        ({"topic": " , "}, "topic.* is missing"),
        ({"namesrv": ""}, "namesrv.* is missing"),
        ({"namesrv": "localhost"}, "did you mean localhost:9876?"),
        ({"namesrv": "localhost:port"}, "namesrv is host:port, not 'localhost:port'"),
        ({"group": "TOOLS_CONSUMER"}, "leave it out instead"),
    ],
)
def test_a_wrong_option_is_named_with_what_it_can_be(given, says) -> None:
    with pytest.raises(BadOption, match=says.replace("?", r"\?")):
        source_options({**ADDRESS, **given})


def test_without_a_group_nothing_is_committed_and_the_tools_group_reads() -> None:
    nameless, named = source_options(ADDRESS), source_options({**ADDRESS, "group": "g"})
    assert (nameless.pull_group, nameless.commits) == ("TOOLS_CONSUMER", False)
    assert (named.pull_group, named.commits) == ("g", True)
    quiet = source_options({**ADDRESS, "group": "g", "commitOffsets": "false"})
    assert not quiet.commits
