"""The scenarios that come with the emulator, by name: ``rmqemu scenario list``.

A TOML file is one scenario and has its name; a Python module has one or several functions, each a
scenario.  A scenario names the issue that it reproduces, if any, and its lesson.
"""
