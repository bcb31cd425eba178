"""Scenarios as TOML files: read into plans, and plans written as files.

What a file may say follows from the structs of ``scenarios.plan.plan`` and the faults: a field
that ends in a unit may be written without it, with the unit in the value.
"""
