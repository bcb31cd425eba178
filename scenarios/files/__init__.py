"""Scenarios as TOML files: read into plans, and plans written as files.

The fields of a file follow from the structs of ``scenarios.plan.plan`` and the faults: a field
whose name ends in a unit may be written without it, with the unit in the value.
"""
