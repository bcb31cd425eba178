"""Code that tests share: benches, small journals, programs that tests start in other processes."""
