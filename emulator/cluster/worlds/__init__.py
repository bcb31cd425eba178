"""The worlds that run a cluster: processes, embedded, virtual."""
