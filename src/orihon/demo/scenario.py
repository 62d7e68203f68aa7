"""The whole demo: play, fold, pause, resume in another process, complete, inherit; then the figures."""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
from collections.abc import Callable, Iterable
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from orihon.context import TaskContextManager
from orihon.demo.features import FEATURES
from orihon.demo.play import DEMO_CONFIG, DemoAgent, Progress
from orihon.demo.workspace import Workspace
from orihon.errors import StateError
from orihon.folders import folder_size
from orihon.settings import Settings
from orihon.store.opening import open_for_reading
from orihon.task import TaskKey
from orihon.texts import language, text
from orihon.verify import verify

KEY = TaskKey("local", "demo", "toolbox", "issue", "1", "you")
_FIRST_HALF = len(FEATURES) // 2


@dataclass(frozen=True, slots=True)
class DemoReport:
    """What the demo's table shows."""

    uuid: str
    second_uuid: str
    base_dir: Path
    messages: int
    log_tokens: int
    view_entries: int
    view_tokens: int
    window: int
    folds: int
    compressions: int
    bytes_on_disk: int
    memory_bytes: int
    findings: int
    inherited: str


class Scenario:
    """Runs the steps one by one; ``stage`` and ``progress`` tell the screen."""

    def __init__(self, folder: Path, stage: Callable[[str], object], progress: Callable[[Progress], object]) -> None:
        self.base_dir = folder / "contexts"
        self.workspace = folder / "workspace"
        self._stage = stage
        self._progress = progress

    def run(self) -> DemoReport:
        uuid = self._first_process()
        self._second_process(uuid)
        return self._second_task(uuid)

    def _first_process(self) -> str:
        self._stage(text("demo.stage_first"))
        with TaskContextManager(self.base_dir, KEY, DEMO_CONFIG) as ctx:
            agent = DemoAgent(ctx, Workspace(self.workspace), self._progress)
            agent.begin(text("demo.goal"))
            for feature in FEATURES[:_FIRST_HALF]:
                agent.build(feature)
            self._stage(text("demo.stage_pause"))
            ctx.stop()
        return ctx.uuid

    def _second_process(self, uuid: str) -> None:
        self._stage(text("demo.stage_resume"))
        command = [sys.executable, "-m", "orihon.demo.play", self.base_dir, uuid, self.workspace, str(_FIRST_HALF)]
        speaking_as_we_do = {**os.environ, "ORIHON_LANG": language()}
        words = [str(word) for word in command]
        # In a process group of its own Ctrl-C does not reach it, perhaps in the middle of an import: we tell it.
        with subprocess.Popen(
            words, stdout=subprocess.PIPE, text=True, env=speaking_as_we_do, process_group=0
        ) as process:
            assert process.stdout is not None
            try:
                self._follow(process.stdout)
            except KeyboardInterrupt:
                process.stdout.close()  # it pauses its task when nobody listens any more
                process.wait()
                raise
        if process.returncode != 0:
            raise StateError("demo_process", code=process.returncode)

    def _follow(self, lines: Iterable[str]) -> None:
        for line in lines:
            told = json.loads(line)
            folded = told.pop("folded")
            self._progress(Progress(**told, folded=tuple(folded) if folded else None))

    def _second_task(self, uuid: str) -> DemoReport:
        self._stage(text("demo.stage_inherit"))
        with TaskContextManager(self.base_dir, KEY, DEMO_CONFIG) as ctx:
            DemoAgent(ctx, Workspace(self.workspace), lambda _: None).begin(text("demo.second_goal"))
            comment = ctx.get_inheritance_notification_comment() or ""
            ctx.stop()
        row = ctx.catalogue.get(uuid)
        return DemoReport(
            uuid=uuid,
            second_uuid=ctx.uuid,
            base_dir=self.base_dir,
            messages=row.total_messages,
            log_tokens=self._log_tokens(uuid, ctx.settings),
            view_entries=row.final_message_count or 0,
            view_tokens=row.final_token_count or 0,
            window=row.context_length or 0,
            folds=row.total_summaries,
            compressions=row.compression_count,
            bytes_on_disk=folder_size(self.base_dir / "completed" / uuid),
            memory_bytes=resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
            findings=len(verify(self.base_dir, uuid, ctx.settings)),
            inherited=comment,
        )

    def _log_tokens(self, uuid: str, settings: Settings) -> int:
        folder = self.base_dir / "completed" / uuid
        with closing(open_for_reading(folder, settings)) as store:
            return store.tail.log_tokens
