"""Monitors that judge clients in any language, from what brokers note of them alone.

They run in ``rmqemu judge`` only: of this emulator's own clients a journal knows more, and other
checkers judge the same more sharply.  ``table`` has them all.
"""
