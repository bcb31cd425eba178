"""The scenarios that come with the emulator, by name: ``rmqemu scenario list``.

A file is one scenario, TOML or Python, and its name is the scenario's; a Python module may
have several functions.  Each names the issue that it reproduces and what it teaches.
"""
