"""Where the catalogue of a test is: a file, or a schema in a running PostgreSQL; and both as others see them."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from orihon.catalogue import Catalogue
from orihon.catalogue.connect import catalogue_exists, open_catalogue
from orihon.settings import Settings, load_settings
from tests.helpers import raw_database
from tests.services import Database

if TYPE_CHECKING:
    import psycopg

KINDS = ("sqlite", "postgres")

#: The first lines of a program that is given ``arguments``: it has ``base``, ``config`` and ``catalogue``.
CHILD = """
import json, sys
from pathlib import Path
from orihon.catalogue.connect import open_catalogue
from orihon.settings import load_settings
base, config = Path(sys.argv[1]), json.loads(sys.argv[2])
catalogue = open_catalogue(base, load_settings(config))
"""


@dataclass(frozen=True, slots=True)
class CataloguePlace:
    """One catalogue; messages are files in any case."""

    base_dir: Path
    database: Database | None

    @property
    def is_shared(self) -> bool:
        """May other machines use it?"""
        return self.database is not None

    @property
    def config(self) -> dict[str, Any]:
        if self.database is None:
            return {}
        return {"database": self.database.settings, "context_storage": {"backend": "files"}}

    @property
    def settings(self) -> Settings:
        return load_settings(self.config, environ={})

    @property
    def arguments(self) -> tuple[str, str]:
        """For a program that begins with ``CHILD``."""
        return str(self.base_dir), json.dumps(self.config)

    def open(self) -> Catalogue:
        return open_catalogue(self.base_dir, self.settings)

    def empty(self) -> None:
        """Nothing is left of an earlier test; the tables stay."""
        if self.database is None or not catalogue_exists(self.base_dir, self.settings):
            return
        tables = (
            # Parts before sums: a thread that an earlier test has left may merge them at any moment.
            *("tasks", "workers", "permissions", "rollup_parts", "rollup_sums"),
            *("notifications", "usage", "alerts", "counters"),
        )
        with self._session(self.database) as session:
            for table in tables:
                session.execute(f"DELETE FROM {table}".encode())
                session.commit()

    def change(self, text: str, *values: str | float | None) -> None:
        """What somebody else's program does to the tables; values stand for question marks."""
        if self.database is None:
            with raw_database(self.base_dir / "tasks.db") as connection:
                connection.execute(text, values)
            return
        with self._session(self.database) as session:
            session.execute(text.replace("?", "%s").encode(), values)

    @staticmethod
    def _session(database: Database) -> psycopg.Connection:
        import psycopg

        return psycopg.connect(database.url, options=f"-c search_path={database.schema} -c synchronous_commit=off")
