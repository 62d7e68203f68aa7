"""What people are told: compressions, questions, tasks that failed, alerts; and the ways it takes.

A notice is written to the catalogue first (``notifier``), so that no crash loses it; then it goes to the log and to
callbacks at once, and to the webhook in the background (``sender``), by whichever process comes to it.
"""
