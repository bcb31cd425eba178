"""Journals of schema 1, as facts of the present one.

Schema 1 had no ``mono_us`` (time is ``at_ms`` then), wrote a queue as a list of three or as two
fields of the broker's own fact, and had other names for some fields.  What it did not know is
null.  Both tables below are all that is remembered of it.
"""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql import types as T  # noqa: N812

from pipeline.tables.facts import fact_fields

FIRST_SCHEMA = 1
OLD_NAMES = {  # kind: present name: name in schema 1
    "TopicCreated": {"read_queue_count": "read_queues", "write_queue_count": "write_queues"},
    "TopicChanged": {"read_queue_count": "read_queues", "write_queue_count": "write_queues"},
    "MembersNotified": {"connection_count": "connections"},
    "MessageStored": {"size_bytes": "size"},
    "SendRefused": {"response_code": "code"},
    "PullAnswered": {"response_code": "code", "message_count": "messages"},
    "OffsetCommitted": {"peer": "client"},
    "LogRecovered": {"message_count": "messages"},
    "LogTailCut": {"position": "at_position"},
    "OldestDropped": {"freed_bytes": "bytes_freed"},
    "RebalancePassed": {"queue_count": "queues", "own_count": "mine"},
    "BrokerRegistered": {"topic_count": "topics"},
    "WritePermChanged": {"topic_count": "topics"},
}
_TEXTS = T.MapType(T.StringType(), T.StringType())
_QUEUE = fact_fields()["queue"]


def fact_of_first_schema(value: Column) -> Column:
    """A line of schema 1 as ``lines.parsed`` wants it: seq, at_ms, mono_us, node, kind, fact."""
    line = F.from_json(value, _TEXTS)
    fact = F.from_json(line["fact"], _TEXTS)
    at_ms = line["at_ms"].cast("long")
    fields = [_field(name, kind, fact, line["node"]) for name, kind in fact_fields().items()]
    return F.struct(
        line["seq"].cast("long").alias("seq"),
        at_ms.alias("at_ms"),
        (at_ms * 1_000).alias("mono_us"),
        line["node"].alias("node"),
        fact["kind"].alias("kind"),
        F.struct(*fields).alias("fact"),
        F.lit(False).alias("is_odd"),
    )


def _field(name: str, wanted: T.DataType, fact: Column, node: Column) -> Column:
    """The field *name* of a fact whose values are texts of JSON."""
    text = F.when(F.lit(False), F.lit(None).cast("string"))
    for kind, names in OLD_NAMES.items():
        if name in names:
            text = text.when(fact["kind"] == kind, fact[names[name]])
        elif name in names.values():
            text = text.when(fact["kind"] == kind, F.lit(None))
    return _typed(text.otherwise(fact[name]), name, wanted, fact, node).alias(name)


def _typed(text: Column, name: str, wanted: T.DataType, fact: Column, node: Column) -> Column:
    if name == "queue":
        own = F.struct(
            fact["topic"].alias("topic"),
            node.alias("broker"),
            fact["queue_id"].cast("long").alias("queue_id"),
        )
        has_own = fact["queue_id"].isNotNull()
        return F.when(has_own, own).when(text.isNotNull(), _queue(_list_of(text)))
    if isinstance(wanted, T.ArrayType) and wanted.elementType == _QUEUE:
        lists = F.from_json(text, T.ArrayType(T.ArrayType(T.StringType())))
        return F.transform(lists, _queue)
    if isinstance(wanted, T.ArrayType):
        return F.from_json(text, wanted)
    return text.try_cast(wanted)


def _list_of(text: Column) -> Column:
    return F.from_json(text, T.ArrayType(T.StringType()))


def _queue(parts: Column) -> Column:
    return F.struct(
        parts[0].alias("topic"),
        parts[1].alias("broker"),
        parts[2].try_cast("long").alias("queue_id"),
    )
