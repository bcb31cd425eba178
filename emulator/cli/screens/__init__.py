"""Tables, live screens and progress bars of commands."""
