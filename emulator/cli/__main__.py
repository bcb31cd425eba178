"""``python -m emulator.cli`` is ``rmqemu``."""

from emulator.cli import main

main()
