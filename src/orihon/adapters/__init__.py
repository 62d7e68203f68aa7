"""Under the frameworks that people already use: a session, a saver or a history of theirs that is a task of ours.

One file for each framework, thin over ``Base`` and ``Task``; a framework is imported by its own file alone, and only
by who imports that. What they share is in ``adapters.common``. Each comes with an extra: ``orihon[langgraph]`` …

A session of a framework is the task of that name, the same one whatever the framework: what was written through one
can be read through another. What a framework needs beside a message lies in ``extra`` of that message, under the name
of the framework, and no provider sees it.
"""
