"""A namespace is a prefix of topics and groups: ``ns%topic``, ``%RETRY%ns%group``.

The separator is also a legal character of names, so taking a namespace off is a guess:
what stands before the first ``%`` that is not the first character.

Upstream: NamespaceUtil.
"""

from __future__ import annotations

from protocol.names import (
    DLQ_GROUP_TOPIC_PREFIX,
    RETRY_GROUP_TOPIC_PREFIX,
    SYSTEM_TOPICS,
    is_system_consumer_group,
    is_system_topic,
    retry_topic,
)

SEPARATOR = "%"


def with_namespace(
    namespace: str, name: str, system_topics: frozenset[str] = SYSTEM_TOPICS
) -> str:
    """*name* inside *namespace*, once; the system's names stay outside.

    Upstream: NamespaceUtil.wrapNamespace.
    """
    prefix, bare = _split_prefix(name)
    is_inside = bare.startswith(namespace + SEPARATOR)
    if not namespace or not name or is_inside or _is_systems(name, system_topics):
        return name
    return f"{prefix}{namespace}{SEPARATOR}{bare}"


def retry_topic_in(
    namespace: str, group: str, system_topics: frozenset[str] = SYSTEM_TOPICS
) -> str | None:
    """The retry topic of a group inside *namespace*; None without a group.

    Upstream: NamespaceUtil.wrapNamespaceAndRetry.
    """
    return retry_topic(with_namespace(namespace, group, system_topics)) if group else None


def without_namespace(name: str, namespace: str | None = None) -> str:
    """*name* taken out of its namespace; only out of *namespace*, if one is given."""
    prefix, bare = _split_prefix(name)
    is_elsewhere = namespace is not None and not bare.startswith(namespace + SEPARATOR)
    at = bare.find(SEPARATOR)
    if at <= 0 or namespace == "" or is_elsewhere or _is_systems(name):
        return name
    return prefix + bare[at + 1 :]


def namespace_of(name: str) -> str:
    """The namespace a name seems to be in; empty for none.

    Upstream: NamespaceUtil.getNamespaceFromResource.
    """
    _, bare = _split_prefix(name)
    at = bare.find(SEPARATOR)
    return "" if at <= 0 or _is_systems(name) else bare[:at]


def _split_prefix(name: str) -> tuple[str, str]:
    for prefix in (RETRY_GROUP_TOPIC_PREFIX, DLQ_GROUP_TOPIC_PREFIX):
        if name.startswith(prefix):
            return prefix, name[len(prefix) :]
    return "", name


def _is_systems(name: str, system_topics: frozenset[str] = SYSTEM_TOPICS) -> bool:
    return is_system_topic(name, system_topics) or is_system_consumer_group(name)
