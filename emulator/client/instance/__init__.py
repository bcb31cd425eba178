"""What the clients of one process share: instances, routes, heartbeats, services.

Stands below ``producer`` and ``consumer`` and imports neither.  Its face: ``ClientProcess``
(process), ``ClientInstance`` (instance) and what that expects of its members (interfaces).
"""
