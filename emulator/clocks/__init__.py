"""The time of a role: its clocks, its alarms, and its sums with samples at fixed intervals."""
