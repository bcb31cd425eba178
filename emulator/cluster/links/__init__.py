"""Links over TCP: a proxy in front of each node, so that faults of links work on real sockets."""
