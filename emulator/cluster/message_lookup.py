"""Messages by their id or key, wherever in a cluster they are.

An id is either where a message lies (its broker's address and a position) or what its
producer gave it, and the text does not show which: it lies somewhere if a broker of the
cluster has that address, else every topic is asked for it.

Upstream: MQAdminImpl.viewMessage, queryMessage; QueryMsgByUniqueKeySubCommand.
"""

from __future__ import annotations

from emulator.cluster.admin import Admin, AdminRefused
from emulator.cluster.topic_reading import age
from protocol.catalog import QUERY_MESSAGE, VIEW_MESSAGE_BY_ID
from protocol.codes import ResponseCode
from protocol.hosts import HOST_V4_BYTES, HOST_V6_BYTES, host_text
from protocol.message import MessageExt, decode_messages
from protocol.message_ids import position_of
from protocol.names import is_system_topic
from protocol.properties import split_keys
from protocol.requests.pulling import QueryMessageRequest, ViewMessageRequest

ID_CHARACTERS = (2 * (HOST_V4_BYTES + 8), 2 * (HOST_V6_BYTES + 8))
COPIES_MAX = 32  # MessageStoreConfig.defaultQueryMaxNum
EVER_MS = 2**63 - 1


class BadMessageId(ValueError):
    """A text that no message has as its id."""


async def by_id(admin: Admin, msg_id: str, topic: str = "") -> list[MessageExt]:
    """The message at that place, or all copies with that key: in *topic*, or anywhere.

    Raises ``BadMessageId``, ``AdminError``; ``NotFound`` for a topic that there is not.
    """
    host = _host_of(msg_id)
    for name, address in (await _addresses(admin)).items():
        if address == host:
            found = await _at(admin, address, name, msg_id)
            if found is not None:
                return [found]
    if topic:
        return await _found(admin, topic, msg_id, COPIES_MAX, is_id=True)
    copies: list[MessageExt] = []
    for each in await _topics(admin):
        copies += await _found(admin, each, msg_id, COPIES_MAX, is_id=True)
    return sorted(copies, key=age)


async def by_key(admin: Admin, topic: str, key: str, count_max: int) -> list[MessageExt]:
    """The newest *count_max* messages of *topic* with *key* among their keys, oldest first.

    Raises ``AdminError``: ``NotFound`` for a topic that there is not.
    """
    return (await _found(admin, topic, key, count_max, is_id=False))[-count_max:]


def _host_of(msg_id: str) -> str:
    """The address in an id that is a place; any other text in one that is none."""
    try:
        data = bytes.fromhex(msg_id)
    except ValueError:
        data = b""
    if 2 * len(data) not in ID_CHARACTERS or len(msg_id) != 2 * len(data):
        raise BadMessageId(f"a message id is 32 (or 56) hexadecimal digits, not {msg_id!r}")
    return host_text(data[:-8])


async def _addresses(admin: Admin) -> dict[str, str]:
    """Of all brokers, slaves too, by a name that their messages get."""
    table = (await admin.cluster_info()).broker_addr_table
    return {name: at for name, data in table.items() for at in data.broker_addrs.values()}


async def _at(admin: Admin, address: str, broker: str, msg_id: str) -> MessageExt | None:
    try:
        header = ViewMessageRequest(offset=position_of(msg_id))
    except ValueError:
        return None  # no place, although it begins with an address that exists
    try:
        reply = await admin.call(address, VIEW_MESSAGE_BY_ID, header)
    except AdminRefused:
        return None
    found = decode_messages(reply.body, broker)
    return found[0] if found else None


async def _topics(admin: Admin) -> list[str]:
    """All topics that messages of applications are in, retries and dead letters too."""
    names: set[str] = set()
    for address in (await admin.masters()).values():
        names |= {config.topic_name or "" for config in await admin.topics(address)}
    return sorted(name for name in names if name and not is_system_topic(name))


async def _found(
    admin: Admin, topic: str, key: str, count_max: int, *, is_id: bool
) -> list[MessageExt]:
    """Oldest first.  Brokers compare hashes: the keys themselves are compared here."""
    header = QueryMessageRequest(
        topic=topic,
        key=key,
        max_num=count_max,
        begin_timestamp=0,
        end_timestamp=EVER_MS,
        unique_key_query=is_id,
    )
    found: list[MessageExt] = []
    for name, address in (await admin.brokers_of(topic)).items():
        reply = await admin.invoke(address, QUERY_MESSAGE, header)
        if reply.code == ResponseCode.SUCCESS:
            found += decode_messages(reply.body, name)
        elif reply.code != ResponseCode.QUERY_NOT_FOUND:
            raise AdminRefused(f"{address} refused with code {reply.code}: {reply.remark}")
    wanted = [m for m in found if m.topic == topic and _has(m, key, is_id=is_id)]
    return sorted(wanted, key=age)


def _has(message: MessageExt, key: str, *, is_id: bool) -> bool:
    return key == message.uniq_key if is_id else key in split_keys(message.keys)
