"""Many runs of one scenario, each row of a grid of parameters and seeds."""
