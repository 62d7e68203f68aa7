"""Message brokers, as far as they carry wake-ups: an address, one connection, a word to whoever listens."""
