"""Runs of plans: a plan runs in a world, its journal is judged, and the result is a row.

    result = run_plan(plan, seed=7)

``virtual_run`` runs one plan in the virtual world, in this process.
"""
