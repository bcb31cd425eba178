"""A scenario as one value, the checks of that value, and the row of its run."""
