"""The tables of docs/configuration.md, from the config structs and the property tables.

A field's comment in the source is its explanation, so the page lists exactly the settings that
exist.
"""

from __future__ import annotations

import ast
import inspect
import io
import tokenize
from collections.abc import Iterable, Iterator, Mapping

import msgspec

from docs.generate.sections import DOCS, write_section
from rocketmq_emulator.broker.handlers import configuration as broker
from rocketmq_emulator.client import (
    ClientConfig,
    ConsumerConfig,
    LitePullConsumerConfig,
    ProducerConfig,
    PullConsumerConfig,
    PushConsumerConfig,
    TransactionProducerConfig,
)
from rocketmq_emulator.client.settings.config import ConsumeFromConfig, GroupMemberConfig
from rocketmq_emulator.controller.state import settings as controller
from rocketmq_emulator.nameserver.state import settings as nameserver
from rocketmq_emulator.processes.role_settings import NET, PROPERTY_TABLES
from rocketmq_emulator.processes.roles import RoleConfig
from rocketmq_emulator.settings.config import (
    BrokerConfig,
    ControllerConfig,
    NameServerConfig,
    NetConfig,
)
from rocketmq_emulator.settings.property_names import ADDRESS_PARTS, ANY_VALUE, PropertyTable
from rocketmq_emulator.settings.setting_rules import INT_MAX, LONG_MAX, CheckedConfig

PAGE = DOCS / "configuration.md"
# Our fields that an administrator can change while a server runs, and since which release.
LIVE: dict[type[RoleConfig], Mapping[str, str]] = {
    NameServerConfig: {
        **{known.field: "from 5.0" for known in nameserver.SETTINGS_5.values()},
        **{known.field: "from 5.1" for known in nameserver.SETTINGS_5_1.values()},
        **{known.field: "from 5.1.4" for known in nameserver.SETTINGS_5_1_4.values()},
        **{known.field: "yes" for known in nameserver.SETTINGS.values()},
    },
    ControllerConfig: dict.fromkeys(controller.SETTINGS.values(), "yes"),
    BrokerConfig: {
        **dict.fromkeys(broker.LIVE_5_3.values(), "from 5.3.0"),
        **dict.fromkeys(broker.LIVE_5_2.values(), "from 5.2"),
        **dict.fromkeys(broker.LIVE_5_1.values(), "from 5.1"),
        **dict.fromkeys(broker.LIVE_5_0.values(), "from 5.0"),
        **dict.fromkeys(broker.LIVE.values(), "yes"),
    },
}
SERVERS: dict[str, type[RoleConfig]] = {
    "NameServer": NameServerConfig,
    "Controller": ControllerConfig,
    "Broker": BrokerConfig,
}
CLIENTS: dict[str, tuple[type[ClientConfig], ...]] = {
    "Every client": (ClientConfig,),
    "Producer": (ProducerConfig,),
    "TransactionProducer": (TransactionProducerConfig,),
    "PushConsumer": (ConsumerConfig, GroupMemberConfig, ConsumeFromConfig, PushConsumerConfig),
    "LitePullConsumer": (
        ConsumerConfig,
        GroupMemberConfig,
        ConsumeFromConfig,
        LitePullConsumerConfig,
    ),
    "PullConsumer": (ConsumerConfig, GroupMemberConfig, PullConsumerConfig),
}
Table = list[tuple[str, ...]]


def settings_text() -> str:
    parts = []
    for title, config in SERVERS.items():
        known = PROPERTY_TABLES[config]
        parts += [f"## {title}", *_table(_server_table(config, known)), ""]
        parts += [_ignored_text(known), ""]
    for title, configs in CLIENTS.items():
        parts += [f"## {title}", *_table(_client_table(configs)), ""]
    return "\n".join(parts)


def _server_table(config: type[RoleConfig], known: PropertyTable) -> Table:
    properties = _properties(known)
    live = LIVE[config]
    rows: Table = [("setting", "default", "range", "RocketMQ's property", "while it runs", "from")]
    for prefix, kind in (("", config), (NET, NetConfig)):
        explained = explanations(kind)
        for name, default in _defaults(kind):
            known_as = ", ".join(properties.get(prefix + name, ()))
            changes = "" if prefix else live.get(name, "")
            row = (f"`{prefix}{name}`", default, _values(kind, name), known_as, changes)
            rows.append((*row, explained[name]))
    return rows


def _client_table(configs: tuple[type[ClientConfig], ...]) -> Table:
    """A row for each field that *configs* define; the last class inherits all of them."""
    defaults = dict(_defaults(configs[-1]))
    explained = {name: text for config in configs for name, text in explanations(config).items()}
    rows: Table = [("setting", "default", "range", "RocketMQ's")]
    return rows + [
        (f"`{name}`", defaults[name], _values(configs[-1], name), text)
        for name, text in explained.items()
        if name in defaults
    ]


def _values(kind: type[CheckedConfig], name: str) -> str:
    """The range of a number; empty for anything else."""
    for part in kind.__mro__:
        rules = part.__dict__.get("setting_rules")
        if rules is not None and (range_ := rules.ranges.get(name)):
            has_end = range_.most not in (INT_MAX, LONG_MAX)
            return f"{range_.least:,} to {range_.most:,}" if has_end else f"from {range_.least:,}"
    return ""


def _properties(known: PropertyTable) -> Mapping[str, list[str]]:
    """Upstream's names by ours."""
    found: dict[str, list[str]] = {}
    for name, property_ in known.settings.items():
        field = ADDRESS_PARTS.get(property_.field, property_.field)
        unit = " (seconds)" if property_.unit == 1_000 else ""
        found.setdefault(field, []).append(f"`{name}`{unit}")
    return found


def _ignored_text(known: PropertyTable) -> str:
    anyhow = [f"`{n}`" for n, values in known.harmless.items() if values is ANY_VALUE]
    only = [
        f"`{name}={value}`" for name, values in known.harmless.items() for value in sorted(values)
    ]
    return (
        f"Without effect here, and listed as ignored if set: {', '.join(anyhow)}.\n\n"
        f"Accepted with this value only, refused with any other: {', '.join(only)}."
    )


def _defaults(kind: type[msgspec.Struct]) -> Iterator[tuple[str, str]]:
    for field in msgspec.structs.fields(kind):
        if field.name == "net":
            continue
        if field.required:
            yield field.name, "required"
            continue
        default = field.default
        if isinstance(default, int) and not isinstance(default, bool):
            yield field.name, f"{default:,}"
        else:
            yield field.name, "" if default in ("", (), None) else f"`{_text(default)}`"


def _text(default: object) -> str:
    return str(default).lower() if isinstance(default, bool) else str(default)


def explanations(kind: type[msgspec.Struct]) -> dict[str, str]:
    """The comment of each of *kind*'s own fields, by its name; empty where there is none."""
    source = inspect.getsource(kind)
    (struct,) = ast.parse(source).body
    assert isinstance(struct, ast.ClassDef)
    comments = {
        token.start[0]: token.string.lstrip("# ")
        for token in tokenize.generate_tokens(io.StringIO(source).readline)
        if token.type == tokenize.COMMENT
    }
    explained = {}
    for node in struct.body:
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            lines = range(node.lineno, (node.end_lineno or node.lineno) + 1)
            explained[node.target.id] = " ".join(comments[n] for n in lines if n in comments)
    return explained


def _table(rows: Iterable[tuple[str, ...]]) -> Iterator[str]:
    head, *body = rows
    yield ""
    yield f"| {' | '.join(head)} |"
    yield f"|{' --- |' * len(head)}"
    for row in body:
        yield f"| {' | '.join(cell.replace('|', '¦') for cell in row)} |"


if __name__ == "__main__":
    write_section(PAGE, "settings", settings_text())
