"""The parts that the clients of one process share: instances, routes, heartbeats, services.

``producer`` and ``consumer`` import this folder, never the reverse.  Public names:
``ClientProcess`` (process), ``ClientInstance`` (instance), and the interfaces of its members
(interfaces).  From the top down; a file imports only from lines below its own:

    process                          the instances of a process, by client id
    instance                         one instance: its parts, heartbeats, requests from brokers
    topic_routes, services
    plain_functions, interfaces
"""
