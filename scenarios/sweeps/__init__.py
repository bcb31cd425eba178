"""Runs from many seeds: side by side, each in a process of its own."""
