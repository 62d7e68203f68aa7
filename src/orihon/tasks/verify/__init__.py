"""What must hold of a stored task, one file for each part of it; ``orihon.tasks.verify.verify`` puts them together.

A check reads, derives the same thing again and reports what differs as a ``Finding``. It changes nothing, holds
counters and never history, and does not raise for damage that it can name.
"""
