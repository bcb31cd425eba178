"""Carrying out plans: a scenario runs in a world, is judged by its journal, and ends as a row.

    result = run_plan(plan, seed=7)

``virtual_run`` runs one plan in the virtual world, in this process.
"""
