"""Values as people write them: addresses, durations, names in their order."""
