"""What producers and consumers of one process share: instances, routes, heartbeats, services."""
