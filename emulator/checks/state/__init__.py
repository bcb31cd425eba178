"""The state of a cluster, folded from the facts of its journal; rules read it."""
