"""``python -m rocketmq_emulator`` runs the command ``rmqemu``."""

from rocketmq_emulator.cli import main

main()
