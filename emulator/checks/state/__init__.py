"""The state of a cluster, folded from the facts of its journal: what rules look things up in."""
