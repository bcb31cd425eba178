"""Disks: what survives, and what it costs (the port is in ``port``)."""
