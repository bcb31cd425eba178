"""Programs for the development of this project; the package `emulator` does not need them."""
