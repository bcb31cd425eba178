"""Scenarios written in Python: an async function that is recorded, not run, and becomes a plan.

``Scenario.plan`` calls the function once with a ``Run`` that writes down what is done and when.
Nothing runs meanwhile: ``run.sleep`` moves the recorded clock, and what would read a clock, a
cluster or chance is refused.
"""
