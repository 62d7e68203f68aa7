"""The demo's workspace: a toolbox with mistakes that real test runs find, and tools that read, write and run its files.

The same tools serve twice: ``files_server`` offers them over MCP, ``with_built_in_tools`` in the worker's process. A
test is Python that somebody, perhaps a model, has written: it runs in a process of its own, with a time limit and none
of our environment, but with the rights of whoever plays the demo.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from orihon.runtime.builtin_tools import BuiltinServer, BuiltinTool, Deadline
from orihon.runtime.handler import TaskHandler
from orihon.runtime.tool import Arguments, ServerAnswer
from orihon.runtime.tools import ToolBox, tool_options
from orihon.runtime.workspace_tools import workspace_tools
from orihon.settings import Settings
from orihon.system.files import make_private_folder
from orihon.system.processes import run_guarded
from orihon.texts import text

FOLDER = "toolbox"


@dataclass(frozen=True, slots=True)
class Feature:
    """One function: the version with a mistake, the mended one, and what its test asserts."""

    name: str
    wrong: str
    right: str
    checks: tuple[str, ...]

    @property
    def module(self) -> str:
        """The function's file in the workspace."""
        return f"{FOLDER}/{self.name}.py"

    @property
    def test(self) -> str:
        """The file of its test."""
        return f"{FOLDER}/test_{self.name}.py"

    @property
    def test_source(self) -> str:
        """A test that runs by itself and says ``ok`` in the end."""
        checks = "\n".join(f"assert {check}, {check!r}" for check in self.checks)
        return f"from {self.name} import {self.name}\n\n{checks}\nprint('ok')\n"


FEATURES: tuple[Feature, ...] = (
    Feature(
        "slugify",
        "def slugify(text):\n    return text.lower().replace(' ', '-')\n",
        "import re\n\n\ndef slugify(text):\n    return re.sub(r'[^a-z0-9]+', '-', text.lower()).strip('-')\n",
        ("slugify('Hello World') == 'hello-world'", "slugify('a  b!') == 'a-b'"),
    ),
    Feature(
        "count_words",
        "def count_words(text):\n    return len(text.split(' '))\n",
        "def count_words(text):\n    return len(text.split())\n",
        ("count_words('one two') == 2", "count_words('  one   two ') == 2"),
    ),
    Feature(
        "to_roman",
        "def to_roman(n):\n    out = ''\n    for value, sign in ((10, 'X'), (5, 'V'), (1, 'I')):\n"
        "        while n >= value:\n            out, n = out + sign, n - value\n    return out\n",
        "def to_roman(n):\n    out = ''\n"
        "    for value, sign in ((50, 'L'), (40, 'XL'), (10, 'X'), (9, 'IX'), (5, 'V'), (4, 'IV'), (1, 'I')):\n"
        "        while n >= value:\n            out, n = out + sign, n - value\n    return out\n",
        ("to_roman(7) == 'VII'", "to_roman(49) == 'XLIX'"),
    ),
    Feature(
        "chunked",
        "def chunked(items, size):\n    return [items[i : i + size] for i in range(0, len(items) - size, size)]\n",
        "def chunked(items, size):\n    return [items[i : i + size] for i in range(0, len(items), size)]\n",
        ("chunked([1, 2, 3, 4], 2) == [[1, 2], [3, 4]]", "chunked([1, 2, 3], 2) == [[1, 2], [3]]"),
    ),
    Feature(
        "median",
        "def median(values):\n    return sorted(values)[len(values) // 2]\n",
        "def median(values):\n    ordered, half = sorted(values), len(values) // 2\n"
        "    return ordered[half] if len(values) % 2 else (ordered[half - 1] + ordered[half]) / 2\n",
        ("median([3, 1, 2]) == 2", "median([4, 1, 2, 3]) == 2.5"),
    ),
    Feature(
        "is_leap_year",
        "def is_leap_year(year):\n    return year % 4 == 0\n",
        "def is_leap_year(year):\n    return year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)\n",
        ("is_leap_year(2024)", "not is_leap_year(1900)", "is_leap_year(2000)"),
    ),
    Feature(
        "flatten",
        "def flatten(items):\n    return [inner for item in items for inner in item]\n",
        "def flatten(items):\n    out = []\n    for item in items:\n"
        "        out.extend(flatten(item) if isinstance(item, list) else [item])\n    return out\n",
        ("flatten([[1], [2, 3]]) == [1, 2, 3]", "flatten([1, [2, [3]]]) == [1, 2, 3]"),
    ),
    Feature(
        "parse_duration",
        "def parse_duration(text):\n    return int(text[:-1]) * {'s': 1, 'm': 60}[text[-1]]\n",
        "import re\n\n\ndef parse_duration(text):\n    seconds = {'s': 1, 'm': 60, 'h': 3600}\n"
        "    return sum(int(n) * seconds[unit] for n, unit in re.findall(r'(\\d+)([smh])', text))\n",
        ("parse_duration('90s') == 90", "parse_duration('1h30m') == 5400"),
    ),
    Feature(
        "wrap",
        "def wrap(text, width):\n    return [text[i : i + width] for i in range(0, len(text), width)]\n",
        "def wrap(text, width):\n    lines = ['']\n    for word in text.split():\n"
        "        if lines[-1] and len(lines[-1]) + 1 + len(word) > width:\n            lines.append('')\n"
        "        lines[-1] = (lines[-1] + ' ' + word).strip()\n    return lines\n",
        ("wrap('aa bb', 9) == ['aa bb']", "wrap('aa bb cc', 5) == ['aa bb', 'cc']"),
    ),
    Feature(
        "caesar",
        "def caesar(text, shift):\n    return ''.join(chr(ord(c) + shift) for c in text)\n",
        "def caesar(text, shift):\n    return ''.join(\n"
        "        chr((ord(c) - 97 + shift) % 26 + 97) if c.islower() else c for c in text\n    )\n",
        ("caesar('abc', 1) == 'bcd'", "caesar('xyz!', 3) == 'abc!'"),
    ),
    Feature(
        "dedupe",
        "def dedupe(items):\n    return sorted(set(items))\n",
        "def dedupe(items):\n    return list(dict.fromkeys(items))\n",
        ("sorted(dedupe([1, 1, 2])) == [1, 2]", "dedupe(['b', 'a', 'b', 'c']) == ['b', 'a', 'c']"),
    ),
    Feature(
        "human_size",
        "def human_size(n):\n    return f'{n / 1024:.1f} KB'\n",
        "def human_size(n):\n    for unit in ('B', 'KB', 'MB', 'GB'):\n        if n < 1024 or unit == 'GB':\n"
        "            return f'{n:.0f} B' if unit == 'B' else f'{n:.1f} {unit}'\n        n /= 1024\n",
        ("human_size(2048) == '2.0 KB'", "human_size(3 * 1024**2) == '3.0 MB'", "human_size(10) == '10 B'"),
    ),
)


# ---- files and tools -------------------------------------------------------------------------------------------------

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
        run = run_guarded(
            [sys.executable, "-E", "-s", "-B", target.name],
            cwd=target.parent,
            env={name: os.environ[name] for name in _PASSED_ON if name in os.environ},
            stdin=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            timeout=_TIME_LIMIT,
        )
        return f"exit {run.returncode}\n{run.stdout.decode()}{run.stderr.decode()}".strip()

    def _inside(self, path: str) -> Path:
        target = (self.folder / path).resolve()
        if not target.is_relative_to(self.folder):
            raise ValueError(f"{path} is outside the workspace")
        return target


def passes(output: str) -> bool:
    """Whether the output of ``run_test`` is that of a test that passed."""
    return output.startswith("exit 0\n") and output.endswith("ok")


# ---- without the mcp package -----------------------------------------------------------------------------------------

SERVER = "files"
BUILT_IN = "orihon.cli.demo.workspace:with_built_in_tools"


def with_built_in_tools(settings: Settings, base_dir: Path) -> TaskHandler:
    """A handler for ``--handler``: the tools of ``tools.workspace``, and one that runs tests."""
    folder = settings.tools.workspace
    assert folder is not None  # the demo names it
    tools = [*workspace_tools(folder, settings.tools.max_output_bytes), _run_test(DemoWorkspace(folder))]
    toolbox = ToolBox([BuiltinServer(SERVER, tools)], tool_options(settings))
    return TaskHandler(settings, base_dir, toolbox=toolbox)


def _run_test(workspace: DemoWorkspace) -> BuiltinTool:
    def run(arguments: Arguments, deadline: Deadline) -> ServerAnswer:
        return ServerAnswer(workspace.run_test(arguments.text("path")))

    about = "Run a test file with Python; gives the exit status and everything it printed."
    return BuiltinTool("run_test", about, {"path": {"type": "string"}}, run, ["path"])
