"""A role's config from several sources; each overrides those before it.

The order is: defaults, a RocketMQ properties file (``-c``), a TOML file, the environment
(``RMQEMU_NAME=broker-a``), ``--set``, flags.  Properties files and ``--set`` accept upstream's
property names and ours; TOML and the environment (``RMQEMU_<FIELD>``) accept ours only.  An
unknown name is refused, with the most similar known one; a property that has no effect here is
listed as ignored.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import msgspec

from rocketmq_emulator.processes.roles import RoleConfig
from rocketmq_emulator.protocol.error_families import Misuse
from rocketmq_emulator.protocol.java import java_properties
from rocketmq_emulator.settings.config import (
    NET_RULES,
    BrokerConfig,
    ControllerConfig,
    NameServerConfig,
    NetConfig,
)
from rocketmq_emulator.settings.property_names import (
    ADVERTISED_HOST,
    ANY_VALUE,
    BROKER,
    CONTROLLER,
    LISTEN_HOST,
    LISTEN_PORT,
    NAME_SERVER,
    PropertyTable,
)
from rocketmq_emulator.settings.setting_rules import refusal_of, unknown_setting, wrong_type

ENVIRONMENT_PREFIX = "RMQEMU_"
RESERVED_VARIABLES = ("RMQEMU_CONTROL",)  # variables that tools read
PROPERTY_TABLES: dict[type[RoleConfig], PropertyTable] = {
    NameServerConfig: NAME_SERVER,
    BrokerConfig: BROKER,
    ControllerConfig: CONTROLLER,
}
ROLES: dict[type[RoleConfig], str] = {
    NameServerConfig: "NameServer",
    BrokerConfig: "broker",
    ControllerConfig: "controller",
}
NET = "net."

FLAGS = {  # settings with a shorter flag
    "listen_address": "listen",
    "advertised_address": "advertise",
    "advertised_to": "advertise",
}


class BadSetting(Misuse):
    """An unknown setting, or an invalid value; the text names its source."""


class Settings:
    """The settings given for a config of *kind*, by our field names; ``ignored`` by upstream's."""

    def __init__(self, kind: type[RoleConfig]) -> None:
        self.kind = kind
        self.given: dict[str, Any] = {}
        self.ignored: list[str] = []
        self._sources: dict[str, str] = {}  # the last source of each setting
        self._properties = PROPERTY_TABLES[kind]
        self._types = _types(kind, "") | _types(NetConfig, NET)

    # Sources --------------------------------------------------------------------------

    def add_properties_file(self, path: str) -> None:
        """Add a RocketMQ .conf file: ``key=value`` lines.  Raises ``BadSetting``."""
        try:
            pairs = java_properties.parse_bytes(_data(path))
        except ValueError as error:
            raise BadSetting(f"{path}: {error}") from error
        self.add_texts(pairs, path)

    def add_toml_file(self, path: str) -> None:
        """Add a TOML file with our names.  Raises ``BadSetting``."""
        try:
            table = tomllib.loads(_text(path))
        except tomllib.TOMLDecodeError as error:
            raise BadSetting(f"{path} is not valid TOML: {error}") from error
        for name, value in _flat(table):
            if name not in self._types:
                raise BadSetting(self._unknown_name(name, path))
            self._set(name, value, path)

    def add_environment(self, environment: Mapping[str, str]) -> None:
        """Add ``RMQEMU_<FIELD>`` variables.  Raises ``BadSetting``."""
        for variable, text in environment.items():
            if variable.startswith(ENVIRONMENT_PREFIX) and variable not in RESERVED_VARIABLES:
                name = variable.removeprefix(ENVIRONMENT_PREFIX).lower()
                name = f"{NET}{name.removeprefix('net_')}" if name.startswith("net_") else name
                self.add_texts({name: text}, f"the environment, {variable}")

    def add_assignments(self, assignments: Iterable[str]) -> None:
        """Add ``--set key=value`` by our names or upstream's.  Raises ``BadSetting``."""
        for assignment in assignments:
            name, equals, text = assignment.partition("=")
            if not equals:
                raise BadSetting(f"--set {assignment}: write it as KEY=VALUE")
            self.add_texts({name.strip(): text.strip()}, f"--set {assignment}")

    def add_texts(self, pairs: Mapping[str, str], where: str) -> None:
        """Add values as text, by our names or upstream's.  ``BadSetting`` names *where*."""
        parts: dict[str, str] = {}  # parts of addresses, which are set together
        for name, text in pairs.items():
            property_ = self._properties.settings.get(name)
            if name in self._types:
                self._set(name, text, where)
            elif property_ is None:
                self._ignore_or_refuse(name, text, where)
            elif property_.field in (LISTEN_HOST, LISTEN_PORT, ADVERTISED_HOST):
                parts[property_.field] = text
            else:
                self._set(property_.field, text, where, property_.unit)
        self._set_addresses(parts, where)

    def add_flags(self, **flags: str | Mapping[str, str] | None) -> None:
        """Add flags by our field names; None: not given.  Raises ``BadSetting``."""
        for name, value in flags.items():
            if value is not None:
                flag = FLAGS.get(name, name)
                self._set(name, value, f"--{flag.replace('_', '-')}")

    def knows(self, name: str) -> bool:
        """Whether *name* is a setting of this role, by our name or upstream's."""
        table = self._properties
        return name in self._types or name in table.settings or name in table.harmless

    # The result -----------------------------------------------------------------------

    def config(self) -> RoleConfig:
        """The config.  Raises ``BadSetting`` for invalid values or combinations."""
        try:
            return msgspec.convert(self.nested(), self.kind)
        except msgspec.ValidationError as error:
            raise self.refused(error) from error

    def refused(self, error: Exception) -> BadSetting:
        """*error* of a config of these settings as ``BadSetting``, with their sources."""
        refusal = refusal_of(error)
        sources = {self._sources[name]: None for name in refusal.settings if name in self._sources}
        return BadSetting(": ".join((*sources, str(refusal))))

    def nested(self) -> dict[str, object]:
        """The settings given, nested as in the config struct."""
        net = {k.removeprefix(NET): v for k, v in self.given.items() if k.startswith(NET)}
        plain = {k: v for k, v in self.given.items() if not k.startswith(NET)}
        return {**plain, "net": net} if net else plain

    # Inside ---------------------------------------------------------------------------

    def _set(self, name: str, value: object, where: str, unit: int = 1) -> None:
        if self._types[name] == tuple[str, ...] and isinstance(value, str):
            value = _parts(value)
        try:
            fit = msgspec.convert(value, self._types[name], strict=False)
        except msgspec.ValidationError as error:
            rules = NET_RULES if name.startswith(NET) else self.kind.setting_rules
            shown = rules.shown(name.removeprefix(NET))
            why = wrong_type(self._types[name], value)
            raise BadSetting(f"{where}: {shown} {why}") from error
        self.given[name] = fit * unit if unit != 1 else fit
        self._sources[name] = where

    def _set_addresses(self, parts: Mapping[str, str], where: str) -> None:
        default = self.kind().listen_address
        host, _, port = str(self.given.get("listen_address", default)).rpartition(":")
        if LISTEN_HOST in parts or LISTEN_PORT in parts:
            host, port = parts.get(LISTEN_HOST, host), parts.get(LISTEN_PORT, port)
            self._set("listen_address", f"{host}:{port}", where)
        if ADVERTISED_HOST in parts:
            self._set("advertised_address", f"{parts[ADVERTISED_HOST]}:{port}", where)

    def _ignore_or_refuse(self, name: str, text: str, where: str) -> None:
        values = self._properties.harmless.get(name)
        if values is None:
            raise BadSetting(self._unknown_name(name, where))
        if values is not ANY_VALUE and text not in values:
            allowed = " or ".join(sorted(values))
            raise BadSetting(f"{where}: {name}={text} is not supported; only {allowed} is")
        self.ignored.append(name)

    def _unknown_name(self, name: str, where: str) -> str:
        for kind, table in PROPERTY_TABLES.items():
            if name in table.settings or name in kind.__struct_fields__:
                return (
                    f"{where}: {name} is a setting of a {ROLES[kind]}, not of a {ROLES[self.kind]}"
                )
        return f"{where}: {unknown_setting(name, [*self._types, *self._properties.settings])}"


def _parts(text: str) -> list[str]:
    """The parts of a list in one text; a ";" at the end adds no part, as in upstream's split."""
    if not text.strip():
        return []
    parts = text.strip().removesuffix(";").replace(",", ";").split(";")
    return [part.strip() for part in parts]


def _types(kind: type[msgspec.Struct], prefix: str) -> dict[str, Any]:
    fields = msgspec.structs.fields(kind)
    return {f"{prefix}{field.name}": field.type for field in fields if field.name != "net"}


def _flat(table: Mapping[str, Any]) -> Iterable[tuple[str, Any]]:
    for name, value in table.items():
        if name == "net" and isinstance(value, dict):
            yield from ((f"{NET}{inner}", setting) for inner, setting in value.items())
        else:
            yield name, value


def _data(path: str) -> bytes:
    try:
        return Path(path).read_bytes()
    except OSError as error:
        raise BadSetting(f"{path}: {error.strerror}") from error


def _text(path: str) -> str:
    try:
        return _data(path).decode()
    except UnicodeDecodeError as error:
        raise BadSetting(f"{path} is not a text in UTF-8: {error}") from error
