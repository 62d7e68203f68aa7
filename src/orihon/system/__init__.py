"""What every room stands on: clock, JSON, private files written whole, counters, observers of progress."""

from collections.abc import Callable

#: Observes a long piece of work: is called with how much is done (tasks, or bytes), and of how much.
ProgressObserver = Callable[[int, int], None]
