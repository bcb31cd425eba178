"""Which handler answers which call: one table, built from a NameServer.

The releases that have a call are data of the call (``since`` and ``until``).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from emulator.nameserver.handlers.admin import AdminRequestProcessor
from emulator.nameserver.handlers.brokers import BrokerRequestProcessor
from emulator.nameserver.handlers.routes import ClientRequestProcessor
from emulator.net.handler_table import Row, Table, table_of
from protocol import catalog

if TYPE_CHECKING:
    from emulator.nameserver.nameserver import NameServer


def handler_table(server: NameServer) -> Table:
    """The handlers of *server* by code: those that its release knows."""
    brokers = BrokerRequestProcessor(server)
    clients = ClientRequestProcessor(server)
    admin = AdminRequestProcessor(server)
    rows = (
        Row(catalog.REGISTER_BROKER, brokers.register_broker),
        Row(catalog.UNREGISTER_BROKER, brokers.unregister_broker),
        Row(catalog.QUERY_DATA_VERSION, brokers.query_data_version),
        Row(catalog.BROKER_HEARTBEAT, brokers.broker_heartbeat),
        Row(catalog.GET_BROKER_MEMBER_GROUP, brokers.get_broker_member_group),
        Row(catalog.GET_ROUTEINFO_BY_TOPIC, clients.get_route_info),
        Row(catalog.GET_BROKER_CLUSTER_INFO, clients.get_broker_cluster_info),
        Row(catalog.GET_ALL_TOPIC_LIST_FROM_NAMESERVER, clients.get_all_topic_list),
        Row(catalog.GET_TOPICS_BY_CLUSTER, clients.get_topics_by_cluster),
        Row(catalog.GET_SYSTEM_TOPIC_LIST_FROM_NS, clients.get_system_topic_list),
        Row(catalog.GET_UNIT_TOPIC_LIST, clients.get_unit_topic_list),
        Row(catalog.GET_HAS_UNIT_SUB_TOPIC_LIST, clients.get_unit_topic_list),
        Row(catalog.GET_HAS_UNIT_SUB_UNUNIT_TOPIC_LIST, clients.get_unit_topic_list),
        Row(catalog.WIPE_WRITE_PERM_OF_BROKER, admin.wipe_write_perm),
        Row(catalog.ADD_WRITE_PERM_OF_BROKER, admin.add_write_perm),
        Row(catalog.DELETE_TOPIC_IN_NAMESRV, admin.delete_topic),
        Row(catalog.REGISTER_TOPIC_IN_NAMESRV, admin.register_topic),
        Row(catalog.PUT_KV_CONFIG, admin.put_kv_config),
        Row(catalog.GET_KV_CONFIG, admin.get_kv_config),
        Row(catalog.DELETE_KV_CONFIG, admin.delete_kv_config),
        Row(catalog.GET_KVLIST_BY_NAMESPACE, admin.get_kv_list),
        Row(catalog.UPDATE_NAMESRV_CONFIG, admin.update_config),
        Row(catalog.GET_NAMESRV_CONFIG, admin.get_config),
    )
    return table_of(rows, server.release)
