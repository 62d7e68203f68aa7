"""The MCP conformance suite against our server, in both revisions: every scenario that a revision requires passes.

The suite needs Node 22 or newer; ``make test`` installs both below ``.venv``. Where a scenario wants tools of its own,
``mcp_fixtures`` adds them to our server; those that need none pass without. See docs/mcp.md.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from orihon import Base
from orihon.mcp.http import HistoryHttpServer, listening_at
from orihon.settings import load_settings
from tests.integration.mcp_fixtures import OpenedServer, opened

HOME = Path(sys.prefix) / "conformance"
SUITE = HOME / "node_modules" / "@modelcontextprotocol" / "conformance" / "dist" / "index.js"
PATIENCE = 600

pytestmark = [
    pytest.mark.skipif(
        not SUITE.exists() and os.environ.get("CI") != "true",
        reason="the MCP conformance suite is not installed: run 'make test'",
    ),
    # Logging and sampling are on their way out of the protocol; the suite still asks for them.
    pytest.mark.filterwarnings("ignore::mcp.shared.exceptions.MCPDeprecationWarning"),
]

#: Not required by a revision, and for things that our server does not have: the extension for tasks, streams that are
#: taken up again.
NOT_OURS = re.compile(r"tasks-.*|sep-2640-.*|server-sse-polling")
#: What a server has to pass that has none of the suite's own tools: the life of a session, headers, lists, errors.
WITHOUT_FIXTURES = {
    "2025-11-25": (
        *("server-initialize", "server-session-lifecycle", "ping", "completion-complete", "tools-list"),
        *("tools-call-error", "server-sse-multiple-streams", "resources-list", "prompts-list"),
        "dns-rebinding-protection",
    ),
    "2026-07-28": (
        *("completion-complete", "tools-list", "tools-call-error", "server-sse-multiple-streams", "resources-list"),
        *("sep-2164-resource-not-found", "prompts-list", "dns-rebinding-protection", "caching"),
        "http-header-validation",
    ),
}
_LINE = re.compile(r"^([✓✗]) ([a-z0-9-]+): (\d+) passed, (\d+) failed$", re.MULTILINE)


def node() -> str:
    """The Node that was installed beside the suite, where the machine's own is too old."""
    found = [*HOME.glob("node_modules/node-*/bin/node"), Path("node")]
    return str(found[0])


def scenarios(server: HistoryHttpServer, revision: str) -> dict[str, tuple[int, int]]:
    """How many checks of each scenario passed and failed."""
    assert SUITE.exists(), "continuous integration needs the MCP conformance suite: see the Makefile"
    command = [node(), str(SUITE), "server", "--url", server.address, "--requirements", revision]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, check=False)
    found = {name: (int(passed), int(failed)) for _, name, passed, failed in _LINE.findall(ran.stdout)}
    assert found, ran.stdout[-2000:] + ran.stderr[-2000:]
    return found


@pytest.fixture
def base(tmp_path: Path) -> Path:
    with Base(tmp_path / "contexts") as made:
        task = made.task("hello")
        task.add("user", "Hello")
        task.stop()
    return tmp_path / "contexts"


@pytest.mark.parametrize("revision", ["2025-11-25", "2026-07-28"])
def test_every_scenario_of_a_revision_passes(base: Path, revision: str) -> None:
    settings = load_settings({}, environ={})
    with OpenedServer(base, settings, listening_at("0"), allow_changes=True) as server:
        server.start()
        found = scenarios(server, revision)
    assert {name: counts for name, counts in found.items() if counts[1] and not NOT_OURS.fullmatch(name)} == {}
    assert len(found) > 30
    assert sum(passed for passed, _ in found.values()) > 70


@pytest.mark.parametrize("revision", list(WITHOUT_FIXTURES))
def test_ours_alone_passes_what_needs_no_tools_of_the_suite(base: Path, revision: str) -> None:
    with opened(HistoryHttpServer)(base, load_settings({}, environ={}), listening_at("0")) as server:
        server.start()
        found = scenarios(server, revision)
    wanted = WITHOUT_FIXTURES[revision]
    assert {name: found[name][1] for name in wanted} == dict.fromkeys(wanted, 0)
