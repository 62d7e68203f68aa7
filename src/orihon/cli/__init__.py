"""The command ``orihon``: one file for each command or two; the work is done by the rooms above."""
