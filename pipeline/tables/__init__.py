"""Tables made from journals, by steps that are each DataFrame → DataFrame."""
