"""Structs become tables: every fact has a schema, and a type without a column type is refused."""

from __future__ import annotations

from datetime import timedelta
from typing import Literal

import msgspec
import pytest

pytest.importorskip("pyspark")

from rocketmq_emulator.facts import MessageStored, QueuesClaimed, all_facts
from rocketmq_emulator.pipeline.schemas import NoTableType, arrow_batch, arrow_schema, spark_schema
from rocketmq_emulator.scenarios.plan.result import RunResult, Unmet


class Inner(msgspec.Struct):
    name: str
    at_ms: int


class Many(msgspec.Struct, kw_only=True):
    count: int
    share: float
    is_done: bool
    kind: Literal["a", "b"]
    maybe: int | None
    inner: Inner
    inners: tuple[Inner, ...]
    words: list[str]
    settings: dict[str, bool | int | float | str]


def test_each_type_of_a_field_has_its_column() -> None:
    assert spark_schema(Many).simpleString() == (
        "struct<count:bigint,share:double,is_done:boolean,kind:string,maybe:bigint,"
        "inner:struct<name:string,at_ms:bigint>,"
        "inners:array<struct<name:string,at_ms:bigint>>,"
        "words:array<string>,settings:map<string,string>>"
    )


def test_only_an_optional_field_may_be_null() -> None:
    assert [field.name for field in spark_schema(Many) if field.nullable] == ["maybe"]
    assert [field.name for field in arrow_schema(Many) if field.nullable] == ["maybe"]


@pytest.mark.parametrize("kind", all_facts(), ids=lambda kind: kind.__name__)
def test_every_fact_is_a_row_of_its_fields(kind) -> None:
    names = [field.encode_name for field in msgspec.structs.fields(kind)]
    assert spark_schema(kind).names == names
    assert arrow_schema(kind).names == names


def test_queues_are_structs_in_facts_and_in_lists_of_facts() -> None:
    queue = "struct<topic:string,broker:string,queue_id:bigint>"
    assert spark_schema(MessageStored)["queue"].dataType.simpleString() == queue
    assert spark_schema(QueuesClaimed)["queues"].dataType.simpleString() == f"array<{queue}>"


def test_a_result_of_a_run_is_a_row() -> None:
    shape = {field.name: field.dataType.simpleString() for field in spark_schema(RunResult)}
    assert shape["parameters"] == "map<string,string>"
    assert shape["metrics"] == "map<string,double>"
    assert shape["seed"] == "bigint"
    assert shape["violations"].startswith("array<struct<checker:string,")


def test_values_become_a_batch_and_texts_of_parameters_are_as_json_says_them() -> None:
    result = RunResult(
        scenario="s",
        code_version="1",
        world="virtual",
        release="4.9.7",
        parameters={"members": 3, "strategy": "averagely", "is_slow": True, "share": 0.5},
        seed=7,
        verdict="failed",
        reason="late",
        metrics={"lost": 0.0},
        violations=(),
        unmet=(Unmet("lost = 0", 1.0),),
        run_s=1.0,
        took_s=0.5,
        fact_count=9,
    )
    batch = arrow_batch(RunResult, [result, result])
    (row, again) = batch.to_pylist(maps_as_pydicts="strict")
    assert row == again
    assert row["parameters"] == {
        "members": "3",
        "strategy": "averagely",
        "is_slow": "true",
        "share": "0.5",
    }
    assert row["unmet"] == [{"expected": "lost = 0", "actual": 1.0}]
    assert batch.schema == arrow_schema(RunResult)


def test_a_type_that_no_table_has_is_refused_by_its_place() -> None:
    class Odd(msgspec.Struct):
        waits: tuple[timedelta, ...]

    with pytest.raises(NoTableType, match=r"Odd\.waits\[\] is a TimeDelta"):
        spark_schema(Odd)


def test_a_field_of_two_shapes_is_refused() -> None:
    class Torn(msgspec.Struct):
        value: int | list[int]

    with pytest.raises(NoTableType, match=r"Torn\.value may be IntType or ListType"):
        spark_schema(Torn)
