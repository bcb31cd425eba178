"""How many planted bugs the checkers find: ``python -m tools.power``, or ``make power``."""
