"""The network layer: connections, requests and replies, timers; it waits, the roles never do.

Every role uses the same ``RemotingServer`` and ``RemotingClient``, on TCP and on a virtual
network: both use ``connection.Connection`` above the interface in ``transport``.
"""
