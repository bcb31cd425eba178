"""Many runs of one scenario: one for each row of a grid of parameters and seeds."""
