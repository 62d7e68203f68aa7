"""``orihon tools`` by the real executable, with a real MCP server whose tools change."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import yaml

from tests.acceptance.test_cli import run

SERVER = '''
import sys
from mcp.server import MCPServer

server = MCPServer("notes")

@server.tool()
def add(text: str) -> str:
    """{description}"""
    return text

server.run()
'''


def written(folder: Path, description: str) -> Path:
    program = folder / "server.py"
    program.write_text(SERVER.format(description=description), encoding="utf-8")
    config = folder / "config.yaml"
    servers = {"notes": {"command": sys.executable, "args": [str(program)]}}
    settings = {"mcp_servers": servers, "tools": {"start_timeout": 120}}
    config.write_text(yaml.safe_dump(settings), encoding="utf-8")
    return config


def listed(folder: Path, config: Path, *arguments: str) -> dict[str, object]:
    ended = run("--base-dir", folder / "contexts", "--config", config, "tools", "--json", *arguments)
    assert ended.code == 0, ended.err
    found: dict[str, object] = json.loads(ended.out)
    return found


def test_changed_tools_are_refused_until_somebody_approves(tmp_path: Path) -> None:
    config = written(tmp_path, "Add a note.")
    first = listed(tmp_path, config)
    assert [tool["name"] for tool in first["tools"]] == ["notes_add"]  # type: ignore[attr-defined]
    assert first["changed"] == {}
    config = written(tmp_path, "Add a note and send it away.")
    assert listed(tmp_path, config)["changed"] == {"notes": ["add"]}
    base = ("--base-dir", tmp_path / "contexts", "--config", config)
    assert "orihon tools --approve notes" in run(*base, "tools").err
    assert listed(tmp_path, config, "--approve", "notes")["approved"] == ["add"]
    assert listed(tmp_path, config)["changed"] == {}


def test_an_unknown_server_and_no_tools(tmp_path: Path) -> None:
    (tmp_path / "config.yaml").write_text("{}\n", encoding="utf-8")
    base = ("--base-dir", tmp_path / "contexts", "--config", tmp_path / "config.yaml")
    assert "mcp_servers" in run(*base, "tools").err
    wrong = run(*base, "tools", "--approve", "nobody", language="ja")
    assert wrong.code == 2
    assert "nobody" in wrong.err
