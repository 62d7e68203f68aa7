"""The manifest of a mirror: which objects, one after the other, make up which file. Values only."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from orihon.drivers.objects import check_key
from orihon.errors import DamagedStore, InvalidId
from orihon.system import jsonio
from orihon.system.files import is_tame

VERSION = 1
MIRRORS = "mirror"  # the place of all mirrors in an object storage


@dataclass(frozen=True, slots=True)
class Segment:
    """A piece of a file, as an object of its own."""

    key: str
    size: int
    sha256: str


Segments = tuple[Segment, ...]


@dataclass(frozen=True, slots=True)
class Manifest:
    """A task's folder as it was at one moment; ``epoch`` and ``writer`` say whose writing it is, ``token`` which."""

    name: str
    epoch: int
    generation: int
    writer: str
    token: str
    written_at: str
    files: Mapping[str, Segments] = field(default_factory=dict)

    def segments(self) -> Iterator[Segment]:
        for segments in self.files.values():
            yield from segments

    def encode(self) -> bytes:
        return jsonio.encode({"version": VERSION, **asdict(self)})


def decode(data: bytes, name: str, root: str, place: str) -> Manifest:
    """A manifest as it was read, checked: its names become paths, its keys are read and deleted."""
    try:
        fields: dict[str, Any] = jsonio.decode(data)
        if fields["version"] != VERSION or fields["name"] != name:
            raise ValueError(name)
        files = {
            file: tuple(Segment(str(one["key"]), int(one["size"]), str(one["sha256"])) for one in segments)
            for file, segments in fields["files"].items()
        }
        manifest = Manifest(
            name,
            int(fields["epoch"]),
            int(fields["generation"]),
            str(fields["writer"]),
            str(fields["token"]),
            str(fields["written_at"]),
            files,
        )
        for segment in manifest.segments():
            if not check_key(segment.key).startswith(f"{root}/") or segment.size < 0:
                raise ValueError(segment.key)
        if not all(map(is_tame, files)):
            raise ValueError(name)
    except (ValueError, KeyError, TypeError, AttributeError, InvalidId) as error:
        detail = "its manifest cannot be read"
        raise DamagedStore("mirror", key=f"{root}/manifest.json", place=place, detail=detail) from error
    return manifest
