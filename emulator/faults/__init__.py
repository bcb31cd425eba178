"""Faults of links and drives as values, which every world of a cluster understands."""
