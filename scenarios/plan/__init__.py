"""A scenario as one value, what can be wrong with it, and the row that its run ends as."""
