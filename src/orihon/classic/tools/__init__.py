"""The command-line tools under the names that the first designs gave them: ``python -m orihon.tools.context_viewer …``.

Each turns its own options into a command line of ``orihon`` and runs that; nothing is done here that ``orihon`` cannot.
"""
