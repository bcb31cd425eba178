"""``python -m rocketmq_emulator`` is ``rmqemu``."""

from rocketmq_emulator.cli import main

main()
