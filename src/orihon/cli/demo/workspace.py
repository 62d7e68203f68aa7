"""The demo's workspace: a toolbox with mistakes in it, and tools that really read, write and run its files.

The same tools serve twice: ``files_server`` offers them over MCP, ``handler`` without it. A test is Python that
somebody, perhaps a model, has written: it runs in a process of its own, with a time limit and none of our environment,
but with the rights of whoever plays the demo.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from orihon.cli.demo.features import FOLDER, Feature
from orihon.system.files import make_private_folder
from orihon.texts import text

GUIDE = "GUIDE.md"
_TIME_LIMIT = 30
_PASSED_ON = ("PATH", "HOME", "LANG")


class DemoWorkspace:
    """A folder and the tools that work on it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder.resolve()

    def prepare(self, features: Sequence[Feature]) -> None:
        """Lay out the toolbox: functions with mistakes, their tests, the guide."""
        make_private_folder(self.folder / FOLDER)
        self.write_file(GUIDE, text("demo.guide"))
        for feature in features:
            self.write_file(feature.module, feature.wrong)
            self.write_file(feature.test, feature.test_source)

    def list_files(self) -> str:
        """List every file with its size."""
        files = sorted(path for path in self.folder.rglob("*") if path.is_file())
        return "\n".join(f"{path.relative_to(self.folder)}  {path.stat().st_size} bytes" for path in files)

    def read_file(self, path: str) -> str:
        """Read a text file."""
        return self._inside(path).read_text(encoding="utf-8")

    def write_file(self, path: str, content: str) -> str:
        """Write a text file, replacing what it had."""
        target = self._inside(path)
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(content, encoding="utf-8")
        return f"{path}: {len(content.encode())} bytes"

    def run_test(self, path: str) -> str:
        """Run a test file with Python; gives the exit status and everything it printed."""
        target = self._inside(path)
        run = subprocess.run(
            [sys.executable, "-E", "-s", "-B", target.name],
            cwd=target.parent,
            env={name: os.environ[name] for name in _PASSED_ON if name in os.environ},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=_TIME_LIMIT,
            check=False,
        )
        return f"exit {run.returncode}\n{run.stdout}{run.stderr}".strip()

    def _inside(self, path: str) -> Path:
        target = (self.folder / path).resolve()
        if not target.is_relative_to(self.folder):
            raise ValueError(f"{path} is outside the workspace")
        return target


def passes(output: str) -> bool:
    """Whether the output of ``run_test`` is that of a test that passed."""
    return output.startswith("exit 0\n") and output.endswith("ok")
