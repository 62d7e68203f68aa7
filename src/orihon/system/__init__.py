"""What every room stands on: clock, JSON, private files written whole, counters."""
