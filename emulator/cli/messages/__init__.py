"""Messages on standard input and output: how lines become messages, and messages lines."""
