"""Random failure schedules: a plan from a seed, and what such runs have met so far.

Safety holds throughout; then all faults end, and the cluster must become quiet within a bound.
"""
