"""JSON Lines: a task complete, record by record as it is stored, for ``orihon import`` and for other programs.

The first line is ``{"orihon_export": 1, "task": …, "contents": …}``: the task's row and how much of everything follows.
Then one line for each large content (``{"blob": sha256, "base64": …}``), each file (``{"file": name, "base64": …}``)
and each record (``{"stream": name, "record": …}``). Contents come before the records that mention them.
"""

from __future__ import annotations

import base64
import dataclasses
from collections.abc import Iterator, Mapping
from typing import Any

from orihon.catalogue.metadata import key_in, read_metadata
from orihon.system import jsonio
from orihon.transfer.export.source import OpenTask

VERSION = 1
#: What a row knows about the machine and the moment, not about the task.
_PASSING = frozenset(
    {"process_id", "hostname", "epoch", "claimed", "attempts", "requested", "available_at", "retry_due", "retry_boot"}
)


def json_lines(task: OpenTask) -> Iterator[bytes]:
    """The lines, each with its line feed."""
    records = task.records
    blobs, files = records.blob_digests(), records.kept_files()
    task.check_here()  # in a folder that has just moved away, there seem to be none
    contents = {"blobs": len(blobs), "files": len(files), **{str(name): last for name, last in task.lasts.items()}}
    yield _line({"orihon_export": VERSION, "task": _about(task), "contents": contents})
    for digest in blobs:
        yield _line({"blob": digest, "base64": _encoded(records.get_blob(digest))})
    for name in files:
        kept = records.kept_file(name)
        if kept is None:
            task.check_here()
        yield _line({"file": name, "base64": _encoded(kept or b"")})
    for stream, last in task.lasts.items():
        for record in records.read(stream, (1, last)) if last else ():
            # As it is stored, byte for byte: encoding it anew could only change it.
            yield b'{"stream":"%s","record":%s}\n' % (stream.encode(), record)


def _about(task: OpenTask) -> dict[str, Any]:
    """The row; where there is none, what the task's folder knows."""
    if task.row is not None:
        fields = dataclasses.asdict(task.row) | {"status": task.row.status.value}
        return {name: fields[name] for name in fields if not name.startswith("lease_") and name not in _PASSING}
    metadata = read_metadata(task.records) or {}
    key = key_in(metadata)
    known = {} if key is None else {**key.as_dict(), "user": key.user}
    return {"uuid": task.uuid, **known, "created_at": metadata.get("created_at")}


def _line(value: Mapping[str, Any]) -> bytes:
    return jsonio.encode(value) + b"\n"


def _encoded(data: bytes) -> str:
    return base64.b64encode(data).decode()
