"""Programs for those who work on this project; nothing in `emulator` needs them."""
