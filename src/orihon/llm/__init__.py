"""Model clients: the view of a task goes out as a file, one complete answer comes back into the log.

Promises that the history is never a Python list (memory mode apart), that an answer is stored only when it is
complete, and that keys of the providers appear neither in logs nor in errors nor in request files. Knows nothing of
tools or workers.
"""
