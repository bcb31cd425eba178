"""An election by hand: a tool asks the controllers to make one broker the master of its name.

Any controller names the one that leads; this one knows the brokers of a name by their addresses,
and elects.  Upstream: ElectMasterSubCommand, MQClientAPIImpl.electMaster.
"""

from __future__ import annotations

from collections.abc import Sequence

from rocketmq_emulator.admin.calls import (
    Admin,
    ClusterUnreachable,
    NotFound,
    checked,
)
from rocketmq_emulator.protocol import catalog
from rocketmq_emulator.protocol.bodies.body import decode_body
from rocketmq_emulator.protocol.bodies.controller import BrokerReplicasInfo
from rocketmq_emulator.protocol.java import java_json
from rocketmq_emulator.protocol.requests.controller import (
    ElectMasterRequest,
    GetMetaDataReply,
    MasterReply,
)


async def controller_leader(admin: Admin, controllers: Sequence[str]) -> str:
    """The address of the leader, from the first of *controllers* that knows it.

    Raises ``ClusterUnreachable`` if none does.
    """
    reasons = []
    for address in controllers:
        try:
            reply = await admin.invoke(address, catalog.CONTROLLER_GET_METADATA_INFO)
        except ClusterUnreachable as error:
            reasons.append(str(error))
            continue
        found = checked(address, reply).decode(GetMetaDataReply).controller_leader_address
        if found:
            return found
        reasons.append(f"{address} knows no leader")
    raise ClusterUnreachable(f"no controller leads: {'; '.join(reasons) or 'there is none'}")


async def elect_master(
    admin: Admin, controllers: Sequence[str], broker: str, address: str
) -> MasterReply:
    """Elect the broker at *address* as the master of the name *broker*.

    Raises ``AdminRefused`` if it already is the master (code 2011), or is not alive or not in the
    sync-state set (2004, 2012); ``NotFound`` if no broker of the name has that address.
    """
    leader = await controller_leader(admin, controllers)
    names = java_json.write([broker])
    reply = await admin.call(leader, catalog.CONTROLLER_GET_SYNC_STATE_DATA, body=names)
    replicas = decode_body(reply.body, BrokerReplicasInfo).replicas_info_table.get(broker)
    known = (
        [] if replicas is None else [*replicas.in_sync_replicas, *replicas.not_in_sync_replicas]
    )
    numbers = [each.broker_id for each in known if each.broker_address == address]
    if not numbers:
        raise NotFound(f"the controller at {leader} knows no broker of {broker} at {address}")
    request = ElectMasterRequest(
        cluster_name="",
        broker_name=broker,
        broker_id=numbers[0],
        designate_elect=True,
    )
    answer = await admin.call(leader, catalog.CONTROLLER_ELECT_MASTER, request)
    return answer.decode(MasterReply)
