"""Scenarios written in Python: an async function that is recorded, not run, and becomes a plan.

``Scenario.plan`` calls the function once with a ``Run`` that records each call with its time.
No cluster runs meanwhile: ``run.sleep`` moves the recorded clock, and calls that read a clock, a
cluster or random numbers are refused.
"""
