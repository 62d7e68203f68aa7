"""How each provider writes a message: one module a dialect, plain dicts in, fields of a ``Message`` out.

The modules know nothing of ``Message`` itself; it is built on them. Converting into chat form returns chat
dicts with notes (see ``message.extra``) for everything that a chat message has no place for, so that nothing
is lost.
"""
