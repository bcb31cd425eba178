"""Tools for a cluster: admin calls, and the overview of brokers, topics and groups."""
