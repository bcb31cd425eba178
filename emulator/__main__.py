"""``python -m emulator`` is ``rmqemu``."""

from emulator.cli import main

main()
