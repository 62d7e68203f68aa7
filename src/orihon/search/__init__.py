"""History search: words found in everything that tasks have said and done, in whatever back end they are.

Owns an index that is derived from the logs: ``search.db`` in the base folder, or tables in the PostgreSQL of the
catalogue. Promises that no append waits for it, that losing it costs a rebuild, and the same matches in both. Refuses
no query. Keeps no text: what is shown comes from the tasks.
"""

from orihon.search.history import SearchHit, SearchResults, catch_up, forget, rebuild_index, search_history

__all__ = ["SearchHit", "SearchResults", "catch_up", "forget", "rebuild_index", "search_history"]
