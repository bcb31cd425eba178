"""Time as a role sees it: its clocks, its alarms, and sums that are sampled as time passes."""
