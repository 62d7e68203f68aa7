"""What a format must do whose files hold whole tasks of ours: put them back as they were."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from pathlib import Path

from orihon.importers.base import Importer, Problem, TranscriptPart
from orihon.importers.ownership import ImportTarget
from orihon.importers.report import ImportedTask


class Restorer(Importer):
    """The reader of such a format."""

    @abstractmethod
    def restore(self, path: Path, place: ImportTarget) -> Iterator[Problem | ImportedTask]:
        """The tasks in the file."""

    def read(self, path: Path) -> Iterator[TranscriptPart]:
        """Nothing that would have to be written anew."""
        return iter(())
