"""What a broker says of its replicas: it is a master, and there are none.

Answers GET_BROKER_HA_STATUS, and GET_BROKER_EPOCH_CACHE as a broker without a controller does
(both 5.x).  Apart from the broker's other figures because slaves and controllers will have
theirs here.

Upstream: AdminBrokerProcessor.getBrokerHaStatus, getBrokerEpochCache.
"""

from __future__ import annotations

from emulator.broker.broker import Broker
from emulator.net.results import Call, Refusal, Reply, Result
from protocol.bodies.body import encode_body
from protocol.bodies.stats import HARuntimeInfo
from protocol.codes import ResponseCode
from protocol.fields import Header


class ReplicaProcessor:
    """A master without slaves."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker

    def ha_status(self, _call: Call[Header]) -> Result:
        """How far the log goes, and which slaves have how much of it."""
        end = self._broker.store.log.end_position
        body = HARuntimeInfo(master=True, master_commit_log_max_offset=end)
        return Reply(body=encode_body(body, self._broker.release))

    def epoch_cache(self, _call: Call[Header]) -> Result:
        """Refused: only a controller counts epochs."""
        raise Refusal(ResponseCode.SYSTEM_ERROR, "this request only for controllerMode ")
