"""Monitors that judge clients in any language, from facts of brokers alone.

They run in ``rmqemu judge`` only: this emulator's own clients write facts too, and other checkers
judge these more strictly.  ``table`` has them all.
"""
