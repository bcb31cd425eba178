"""The settings of a NameServer with a controller in its process."""

from __future__ import annotations

import pytest

from rocketmq_emulator.cluster.spec import ClusterSpec
from rocketmq_emulator.nameserver.state.settings import NameServerSettings
from rocketmq_emulator.processes.namesrv_settings import NameServerProcessSettings
from rocketmq_emulator.processes.role_settings import BadSetting
from rocketmq_emulator.settings.config import NameServerConfig
from rocketmq_emulator.settings.setting_rules import BadField

PEERS = "n0-127.0.0.1:9877;n1-127.0.0.1:9878;n2-127.0.0.1:9879"
CONF = f"""
enableControllerInNamesrv = true
listenPort = 9000
controllerDLegerGroup = group1
controllerDLegerPeers = {PEERS}
controllerDLegerSelfId = n1
enableElectUncleanMaster = true
scanNotActiveBrokerInterval = 1000
serverWorkerThreads = 8
mappedFileSize = 1024
"""


def of_conf(tmp_path, text: str = CONF) -> NameServerProcessSettings:
    path = tmp_path / "namesrv.conf"
    path.write_text(text)
    settings = NameServerProcessSettings()
    settings.add_properties_file(str(path))
    return settings


def test_one_file_has_the_properties_of_the_name_server_and_of_its_controller(tmp_path) -> None:
    settings = of_conf(tmp_path)
    config, controller = settings.config(), settings.controller_config()
    assert controller is not None
    assert (config.listen_address, controller.served_address) == (
        "127.0.0.1:9000",
        "127.0.0.1:9878",
    )
    assert (controller.group, controller.self_id, controller.peers) == ("group1", "n1", PEERS)
    assert controller.elect_unclean_master
    assert (config.scan_interval_ms, controller.scan_interval_ms) == (1_000, 1_000)
    assert settings.ignored == ["serverWorkerThreads"]


def test_both_have_one_release_which_is_one_with_controllers(tmp_path) -> None:
    settings = of_conf(tmp_path)
    assert (settings.config().release, settings.controller_config().release) == ("5.3.3", "5.3.3")
    settings.add_flags(release="5.1.4", listen_address=None)
    assert (settings.config().release, settings.controller_config().release) == ("5.1.4", "5.1.4")
    settings.add_assignments(["release=4.9.7"])
    with pytest.raises(BadSetting, match=r"release=4\.9\.7: .*a controller has the release 5"):
        settings.controller_config()


@pytest.mark.parametrize(
    ("more", "folder"),
    [("", "/kept/controller"), ("controllerStorePath = /elsewhere\n", "/elsewhere")],
)
def test_a_controller_keeps_its_decisions_in_a_folder_of_its_own(tmp_path, more, folder) -> None:
    settings = of_conf(tmp_path, CONF + more)
    settings.add_flags(store="/kept")
    assert (settings.config().store, settings.controller_config().store) == ("/kept", folder)


def test_properties_of_a_controller_are_refused_where_none_is_asked_for(tmp_path) -> None:
    alone = CONF.replace("enableControllerInNamesrv = true\n", "")
    with pytest.raises(
        BadSetting, match=r"namesrv\.conf: controllerDLegerGroup is a setting of a c"
    ):
        of_conf(tmp_path, alone).config()


def test_properties_of_a_controller_that_is_switched_off_are_ignored(tmp_path) -> None:
    settings = of_conf(tmp_path, CONF.replace("= true\nlisten", "= false\nlisten"))
    settings.config()
    assert settings.controller_config() is None
    assert "controllerDLegerPeers" in settings.ignored


def test_a_cluster_has_controllers_as_nodes_and_refuses_them_in_its_name_servers() -> None:
    spec = ClusterSpec(release="5.3.3", name_server_settings={"controller_in_namesrv": True})
    with pytest.raises(BadField, match="namesrv: controllers of a cluster are nodes of their own"):
        spec.check()


def test_an_administrator_sees_whether_a_name_server_has_a_controller(tmp_path) -> None:
    shown = NameServerSettings(of_conf(tmp_path).config()).properties()
    alone = NameServerSettings(NameServerConfig(release="5.3.3")).properties()
    assert (shown["enableControllerInNamesrv"], alone["enableControllerInNamesrv"]) == (
        "true",
        "false",
    )
