"""``python -m rocketmq_emulator.cli`` is ``rmqemu``."""

from rocketmq_emulator.cli import main

main()
