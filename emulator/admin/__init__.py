"""Tools at a cluster: the calls of operators, and what several of them show together."""
