"""The settings of clients, and checks of the arguments that applications pass."""
