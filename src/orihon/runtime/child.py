"""A worker in a process of its own: ``python -P -m orihon.runtime.child``, started by the supervisor.

The supervisor writes a ``WorkerSpec`` to its standard input and keeps that open. When it closes, the supervisor is
gone, whatever ended it: the worker drains and ends, so that no worker is ever left alone. Works on every system, unlike
a signal at the parent's death, and needs no look at process numbers.

The supervisor's environment comes the same way, once this process is closed to others of its user: a program is begun
open, and whatever it is begun with could be read in its first moments.
"""

from __future__ import annotations

import logging
import os
import struct
import sys
import threading
import time
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import BinaryIO

from orihon.errors import DamagedStore, InvalidInput, NewerSchema, OrihonError
from orihon.guard.logs import configure
from orihon.runtime.queue import QueueLimits
from orihon.runtime.worker import WorkerProcess
from orihon.settings import Settings
from orihon.settings.model import leaf, schema
from orihon.system import jsonio
from orihon.system.processes import close_to_children
from orihon.texts import set_language

logger = logging.getLogger("orihon.worker")

EXIT_REFUSED = 78  # starting it again would not help
EXIT_ORPHANED = 76
EXIT_FAILED = 1
_HEADER = struct.Struct(">Q")


@dataclass(frozen=True, slots=True)
class LogPlan:
    """Where a worker's log goes: what ``orihon.guard.logs.configure`` is called with."""

    level: int | str
    file: Path | None = None
    screen: int | str | None = None


@dataclass(frozen=True, slots=True)
class WorkerSpec:
    """What a worker has to know."""

    worker_id: str
    settings: Settings
    base_dir: Path
    handler: str
    limits: QueueLimits
    until_empty: bool = False
    logs: LogPlan | None = None
    language: str | None = None

    def as_json(self) -> bytes:
        """As text, since the worker's code may be newer than ours. Modules are looked for where we look for them."""
        environ = {name.decode("latin-1"): value.decode("latin-1") for name, value in os.environb.items()}
        given = self.settings.as_dict(mask_secrets=False)
        explicit = {key: leaf(given, key) for key in schema() if self.settings.is_explicit(key)}
        logs = None if self.logs is None else {**asdict(self.logs), "file": _text(self.logs.file)}
        replaced = {"settings": explicit, "base_dir": str(self.base_dir), "limits": asdict(self.limits), "logs": logs}
        plain = {field.name: getattr(self, field.name) for field in fields(self) if field.name not in replaced}
        found = {"sys_path": [path for path in sys.path if path], "config_file": _text(self.settings.file)}
        return jsonio.encode({**plain, **replaced, **found, "environ": environ})

    @classmethod
    def from_json(cls, data: bytes) -> WorkerSpec:
        """A spec; the environment, and the places where modules are looked for, are put in force."""
        given = jsonio.decode(data)
        environ = given.pop("environ", {}).items()
        os.environb.update({name.encode("latin-1"): value.encode("latin-1") for name, value in environ})
        sys.path.extend(path for path in given.pop("sys_path") if path not in sys.path)
        logs = given["logs"] and LogPlan(**{**given["logs"], "file": _path(given["logs"]["file"])})
        file = _path(given.pop("config_file", None))
        made = {
            "settings": replace(Settings().replace(**given["settings"]), file=file),
            "base_dir": Path(given["base_dir"]),
            "limits": QueueLimits(**given["limits"]),
            "logs": logs,
        }
        return cls(**{**given, **made})

    def write(self, stream: BinaryIO) -> None:
        """Hand it over."""
        body = self.as_json()
        stream.write(_HEADER.pack(len(body)) + body)
        stream.flush()

    @classmethod
    def read(cls, stream: BinaryIO) -> WorkerSpec:
        """Take it; without one the supervisor died before it could say anything, and so does the worker."""
        header = stream.read(_HEADER.size)
        if len(header) < _HEADER.size:
            sys.exit(EXIT_ORPHANED)
        return cls.from_json(stream.read(*_HEADER.unpack(header)))


def main() -> int:
    """The life of one worker process."""
    close_to_children()
    stream = sys.stdin.buffer
    try:
        spec = WorkerSpec.read(stream)
    except InvalidInput as error:
        sys.stderr.write(f"orihon: {error}\n")
        return EXIT_REFUSED
    set_language(spec.language)
    if spec.logs is not None:
        configure(spec.logs.level, spec.logs.file, screen=spec.logs.screen)
    try:
        worker = WorkerProcess(
            spec.worker_id,
            spec.settings,
            base_dir=spec.base_dir,
            handler=spec.handler,
            limits=spec.limits,
            until_empty=spec.until_empty,
        )
        worker.check()
    except (InvalidInput, DamagedStore, NewerSchema) as error:
        logger.error("worker %s cannot work: %s", spec.worker_id, error)
        return EXIT_REFUSED
    watcher = threading.Thread(target=_end_with_parent, args=(stream, worker), daemon=True)
    watcher.start()
    try:
        worker.run()
    except OrihonError as error:  # the next one may do better, or finds out at its start that it cannot
        logger.error("worker %s ends: %s", spec.worker_id, error)
        return EXIT_FAILED
    return 0


def _text(path: Path | None) -> str | None:
    return None if path is None else str(path)


def _path(text: str | None) -> Path | None:
    return None if text is None else Path(text)


def _end_with_parent(stream: BinaryIO, worker: WorkerProcess) -> None:
    descriptor = stream.fileno()
    while os.read(descriptor, 1024):
        pass
    logger.warning("%s: the supervisor is gone", worker.name)
    worker.stop()
    time.sleep(worker.queue.limits.drain_seconds)
    os._exit(EXIT_ORPHANED)


if __name__ == "__main__":
    code = main()
    logging.shutdown()
    os._exit(code)  # the watcher waits at standard input, and a handler may have left threads behind
