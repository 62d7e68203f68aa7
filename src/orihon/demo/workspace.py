"""The demo's tools: they really read, write and run files, inside one scratch folder."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

_TIME_LIMIT = 30


class Workspace:
    """A scratch folder and the tools that work on it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        self.tools: dict[str, Callable[..., str]] = {
            "list_files": self.list_files,
            "read_file": self.read_file,
            "write_file": self.write_file,
            "search": self.search,
            "run_python": self.run_python,
        }

    def list_files(self) -> str:
        """Every file with its size."""
        files = sorted(path for path in self.folder.rglob("*.*") if path.is_file())
        return "\n".join(f"{path.relative_to(self.folder)}  {path.stat().st_size} bytes" for path in files)

    def read_file(self, path: str) -> str:
        return self._inside(path).read_text(encoding="utf-8")

    def write_file(self, path: str, text: str) -> str:
        target = self._inside(path)
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text, encoding="utf-8")
        return f"wrote {len(text)} characters to {path}"

    def search(self, word: str) -> str:
        """Lines that hold the word, as file:line: text."""
        found = [
            f"{path.relative_to(self.folder)}:{number}: {line}"
            for path in sorted(self.folder.rglob("*.py"))
            for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1)
            if word in line
        ]
        return "\n".join(found) or "no match"

    def run_python(self, path: str) -> str:
        """Runs a file and returns what it printed, errors included."""
        run = subprocess.run(
            [sys.executable, "-E", "-s", "-B", self._inside(path).name],
            cwd=self._inside(path).parent,
            capture_output=True,
            text=True,
            timeout=_TIME_LIMIT,
            check=False,
        )
        return f"exit {run.returncode}\n{run.stdout}{run.stderr}".strip()

    def _inside(self, path: str) -> Path:
        target = (self.folder / path).resolve()
        if not target.is_relative_to(self.folder.resolve()):
            raise ValueError(f"{path} is outside the workspace")
        return target
