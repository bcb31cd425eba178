"""What a broker answers: one file a theme."""
