"""The settings of a NameServer's process, which may have a controller in it.

With ``enableControllerInNamesrv=true`` a RocketMQ NameServer starts a controller beside itself,
and one file has the properties of both.  A property that both have counts for both, such as
``scanNotActiveBrokerInterval``; the address, the port and the folder are the NameServer's own.

Upstream: NamesrvStartup.parseCommandlineAndConfigFile.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from rocketmq_emulator.processes.role_settings import NET, BadSetting, Settings
from rocketmq_emulator.settings.config import ControllerConfig, NameServerConfig
from rocketmq_emulator.settings.property_names import ADDRESS_PARTS, CONTROLLER, NAME_SERVER

ENABLE = "enableControllerInNamesrv"
OF_THE_PROCESS = ("release", "reply_rules_allowed", "facts_on_demand")  # our names
CONTROLLER_STORE = "controller"  # below the NameServer's folder, if none is given


class NameServerProcessSettings(Settings):
    """The settings given for a NameServer; ``controller_config`` has those of its controller."""

    def __init__(self) -> None:
        super().__init__(NameServerConfig)
        self._controller = Settings(ControllerConfig)
        self._theirs_alone: dict[str, str] = {}  # settings of a controller only: their sources

    def add_texts(self, pairs: Mapping[str, str], where: str) -> None:
        """Add values as text; those of a controller are kept for it.  Raises ``BadSetting``."""
        mine, theirs = {}, {}
        for name, text in pairs.items():
            is_mine, is_theirs = self.knows(name), self._controller.knows(name)
            if is_mine or not is_theirs:
                mine[name] = text
            else:
                self._theirs_alone.setdefault(name, where)
            if is_theirs and (not is_mine or _is_shared(name)):
                theirs[name] = text
        super().add_texts(mine, where)
        self._controller.add_texts(theirs, where)

    def add_flags(self, **flags: str | Mapping[str, str] | None) -> None:
        """Add flags by our field names; the release is the controller's too."""
        super().add_flags(**flags)
        self._controller.add_flags(release=flags.get("release"))

    def config(self) -> NameServerConfig:
        """The NameServer's config.

        Raises ``BadSetting`` also for a controller's properties without ``ENABLE``.
        """
        if self._has_controller:
            self.given.setdefault("release", ControllerConfig().release)
        elif "controller_in_namesrv" in self.given:
            self.ignored = [*dict.fromkeys((*self.ignored, *self._theirs_alone))]
        elif self._theirs_alone:
            name, where = next(iter(self._theirs_alone.items()))
            raise BadSetting(
                f"{where}: {name} is a setting of a controller, not of a NameServer: "
                f"{ENABLE}=true runs one in the NameServer's process"
            )
        config = super().config()
        assert isinstance(config, NameServerConfig)
        return config

    def controller_config(self) -> ControllerConfig | None:
        """The config of the controller in this process; None if there is none."""
        if not self._has_controller:
            return None
        config, theirs = self.config(), self._controller
        theirs.given.setdefault("release", config.release)
        if config.store:
            theirs.given.setdefault("store", str(Path(config.store) / CONTROLLER_STORE))
        made = theirs.config()
        assert isinstance(made, ControllerConfig)
        return made

    @property
    def _has_controller(self) -> bool:
        return bool(self.given.get("controller_in_namesrv"))


def _is_shared(name: str) -> bool:
    """Whether a setting that both roles have counts for both."""
    known = NAME_SERVER.settings.get(name)
    if known is None or name not in CONTROLLER.settings:
        return name in OF_THE_PROCESS or name.startswith(NET)
    return known.field not in ADDRESS_PARTS
