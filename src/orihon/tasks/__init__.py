"""The life of a task: where it lies, who owns it, its context, approvals, inheritance, the proof that it is whole."""
