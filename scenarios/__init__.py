"""Scenarios: what is done to a cluster, when, and what is expected of it.

Below the public ``rocketmq_emulator.scenarios``.  A scenario is a plan (``plan``), written in
Python or TOML, carried out in one of the worlds and judged by its journal alone.
"""
