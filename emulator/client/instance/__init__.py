"""What the clients of one process share: instances, routes, heartbeats, services.

Stands below ``producer`` and ``consumer`` and imports neither.  Its face: ``ClientProcess``
(process), ``ClientInstance`` (instance) and what that expects of its members (interfaces).
From the top down; a file imports only what stands in lines below its own:

    process                                          the instances of a process, by client id
    instance                                         the parts, put together
    topic_routes, heartbeats, consumer_services, remoting_processor
    addresses, route_queues, schedule, plain_functions, interfaces
"""
