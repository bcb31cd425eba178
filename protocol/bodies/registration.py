"""The body of a broker's registration: its topics as JSON, or packed and compressed.

The packed form is a sequence of lengths and texts inside a zlib stream.  The header of
5.x has compressed=false even for a compressed body, so the first byte decides.
"""

from __future__ import annotations

import struct
import zlib

import msgspec

from rocketmq_emulator.protocol.bodies.body import (
    Body,
    decode_body,
    decode_unlimited_body,
    encode_body,
)
from rocketmq_emulator.protocol.bodies.topics import (
    DataVersion,
    TopicConfig,
    TopicConfigAndMappingSerializeWrapper,
    TopicQueueMappingInfo,
    decode_topic_config,
    encode_topic_config,
)
from rocketmq_emulator.protocol.fields import BadFields
from rocketmq_emulator.protocol.java import java_json
from rocketmq_emulator.protocol.versions import MAPPINGS_PACKED, R_5_3_3, Release

INFLATED_BYTES_MAX = 64 * 1024 * 1024  # ours: upstream inflates any size

_INT = struct.Struct(">i")
_ZLIB_FIRST_BYTE = 0x78


class RegisterBrokerBody(Body, frozen=True):
    """Upstream: RegisterBrokerBody."""

    topic_config_serialize_wrapper: TopicConfigAndMappingSerializeWrapper = (
        TopicConfigAndMappingSerializeWrapper()
    )
    filter_server_list: list[str] = []


def crc32(data: bytes) -> int:
    """The checksum of a registration's body as it is sent.  Upstream: UtilAll.crc32."""
    return zlib.crc32(data) & 0x7FFFFFFF


def encode_register_broker(
    body: RegisterBrokerBody, release: Release, *, compressed: bool
) -> bytes:
    """Upstream: RegisterBrokerBody.encode."""
    if not compressed:
        return encode_body(body, release)
    return zlib.compress(packed(body, release), 9)


def decode_register_broker(data: bytes, version: int) -> RegisterBrokerBody:
    """Decodes both forms; packed ones end with mappings if the sender's *version* has them.

    Raises ``BadFields``.  Upstream: RegisterBrokerBody.decode.
    """
    if data[:1] != bytes([_ZLIB_FIRST_BYTE]):
        return decode_unlimited_body(data, RegisterBrokerBody)
    try:
        return _unpack(_inflated(data), version)
    except (zlib.error, struct.error, ValueError) as error:
        raise BadFields(f"the compressed registration is damaged: {error}") from error


def packed(body: RegisterBrokerBody, release: Release) -> bytes:
    """The packed form, before compression."""
    wrapper = body.topic_config_serialize_wrapper
    configs = [encode_topic_config(c, release) for c in wrapper.topic_config_table.values()]
    parts = [
        _sized(encode_body(wrapper.data_version, release)),
        _INT.pack(len(configs)),
        *(_sized(config.encode()) for config in configs),
        _sized(java_json.write(body.filter_server_list)),
    ]
    if release >= MAPPINGS_PACKED:
        mappings = wrapper.topic_queue_mapping_info_map.values()
        parts += (_INT.pack(len(mappings)), *(_sized(encode_body(m, release)) for m in mappings))
    return b"".join(parts)


def _sized(data: bytes) -> bytes:
    return _INT.pack(len(data)) + data


def _inflated(data: bytes) -> bytes:
    inflater = zlib.decompressobj()
    plain = inflater.decompress(data, INFLATED_BYTES_MAX)
    if inflater.unconsumed_tail:
        raise BadFields(f"a registration of more than {INFLATED_BYTES_MAX} bytes")
    return plain


def _unpack(data: bytes, version: int) -> RegisterBrokerBody:
    reader = _PackedReader(data)
    data_version = decode_body(reader.text(), DataVersion)
    # The text shows how many parts it has, so the rule of 5.x reads both forms.
    texts = [reader.text().decode() for _ in range(reader.count())]
    configs = [decode_topic_config(text, R_5_3_3) or TopicConfig() for text in texts]
    filter_servers = msgspec.convert(java_json.read(reader.text()), list[str])
    mappings: list[TopicQueueMappingInfo] = []
    if version >= MAPPINGS_PACKED.version:
        mappings = [
            decode_body(reader.text(), TopicQueueMappingInfo) for _ in range(reader.count())
        ]
    return RegisterBrokerBody(
        topic_config_serialize_wrapper=TopicConfigAndMappingSerializeWrapper(
            data_version=data_version,
            topic_config_table={str(c.topic_name): c for c in configs},
            topic_queue_mapping_info_map={str(m.topic): m for m in mappings},
        ),
        filter_server_list=filter_servers,
    )


class _PackedReader:
    """Lengths and texts, one after another."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def count(self) -> int:
        value: int = _INT.unpack_from(self._data, self._at)[0]
        self._at += _INT.size
        return value

    def text(self) -> bytes:
        size = self.count()
        if not 0 <= size <= len(self._data) - self._at:
            raise ValueError(f"a part of {size} bytes at {self._at}")
        self._at += size
        return self._data[self._at - size : self._at]
