"""PostgreSQL as Orihon uses it: connections that are pooled and survive forks, errors of our own tree, one schema.

Shared by the catalogue and by the ``postgres`` back end. Nothing here knows what is stored; ``psycopg`` is imported
only by who comes in here.
"""
