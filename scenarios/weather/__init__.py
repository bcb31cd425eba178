"""Weather, random failure schedules: a plan from a seed, and the coverage of such runs.

Safety must hold throughout; then all faults end, and the run must become quiet within a bound.
"""
