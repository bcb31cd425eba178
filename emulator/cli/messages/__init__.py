"""Messages on standard input and output: lines become messages, messages become lines."""
