"""``orihon handoff`` and ``orihon mcp`` as people type them."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path
from typing import Any

import pytest

from tests.acceptance.test_cli import run
from tests.damage import paused_task


@pytest.fixture
def base(tmp_path: Path) -> Path:
    base = tmp_path / "contexts"
    paused_task(base, "files", uuid="abc-1")
    return base


def test_handoff_prints_a_prompt_or_writes_a_file(base: Path, tmp_path: Path) -> None:
    printed = run("--base-dir", base, "handoff", "owner/repo#27")
    assert (printed.code, printed.err) == (0, "")
    assert "You take over the work on this task" in printed.out
    assert "orihon view abc-1" in printed.out
    japanese = run("--base-dir", base, "handoff", "abc", "--form", "markdown", language="ja")
    assert "## 原文の場所" in japanese.out
    out = tmp_path / "request.json"
    written = run("--base-dir", base, "handoff", "abc", "--form", "anthropic", "-o", out, "--json")
    assert json.loads(written.out)["file"] == str(out)
    assert json.loads(out.read_bytes())["messages"]
    again = run("--base-dir", base, "handoff", "abc", "-o", out)
    assert (again.code, again.out) == (2, "")
    assert again.err.startswith(f"orihon: {out} is there already.")
    assert run("--base-dir", base, "handoff", "abc", "-o", out, "--force").code == 0
    assert run("--base-dir", base, "handoff", "nobody").code == 2


def test_mcp_alone_is_its_first_command(base: Path) -> None:
    """Without anything on its standard input the server ends at once."""
    for words in ((), ("serve",), ("--allow-changes",)):
        ended = run("--base-dir", base, "mcp", *words)
        assert (ended.code, ended.out, ended.err) == (0, "", "")
    assert "serve" in run("mcp", "--help").out
    assert "--allow-changes" in run("mcp", "serve", "--help").out
    for option, *value in (["--json"], ["--hide-token"], ["--allow-host", "x"]):
        alone = run("--base-dir", base, "mcp", option, *value)
        assert (alone.code, option in alone.err, "--http" in alone.err) == (2, True, True)
    unknown = run("--base-dir", base, "mcp", "dance")
    assert (unknown.code, "dance" in unknown.err) == (2, True)
    beyond = run("--base-dir", base, "mcp", "--http", "0.0.0.0:80")
    assert (beyond.code, "this machine alone" in beyond.err) == (2, True)
    missing = run("--base-dir", base / "nowhere", "mcp")
    assert (missing.code, "nowhere" in missing.err) == (2, True)


# ---- telling clients of it -------------------------------------------------------------------------------------------

FILES = {
    "claude": (".claude.json", ".mcp.json", "mcpServers"),
    "codex": (".codex/config.toml", ".codex/config.toml", "mcp_servers"),
    "cursor": (".cursor/mcp.json", ".cursor/mcp.json", "mcpServers"),
    "opencode": (".config/opencode/opencode.json", "opencode.json", "mcp"),
    "vscode": (".config/Code/User/mcp.json", ".vscode/mcp.json", "servers"),
}


def read(file: Path, section: str) -> Any:
    said = file.read_text(encoding="utf-8")
    return (tomllib.loads(said) if file.suffix == ".toml" else json.loads(said))[section]["orihon"]


@pytest.mark.parametrize("client", FILES)
def test_a_client_is_told_once_in_its_own_file(client: str, tmp_path: Path) -> None:
    home, project = tmp_path / "home", tmp_path / "project"
    home.mkdir()
    project.mkdir()
    own, of_project, section = FILES[client]
    words = ("--base-dir", "contexts", "mcp", "install", client)

    def told(*more: str) -> Any:
        return run(*words, *more, cwd=project, HOME=str(home), XDG_CONFIG_HOME="")

    seen = told()
    assert (seen.code, str(home / own) in seen.err) == (0, True)
    assert list(home.iterdir()) == list(project.iterdir()) == []
    for file, more in ((home / own, ()), (project / of_project, ("--project",))):
        written = told("--write", *more)
        assert (written.code, written.err) == (0, "")
        assert str(file) in written.out
        entry = read(file, section)
        parted = entry["command"] if client == "opencode" else [entry["command"], *entry["args"]]
        assert Path(parted[0]).is_absolute()
        assert parted[1:] == ["--base-dir", str(project / "contexts"), "mcp"]
        assert file.read_text(encoding="utf-8") == seen.out
        assert "already" in told("--write", *more).out
        assert [one.name for one in file.parent.iterdir() if one.is_file()] == [file.name]
        other = told("--write", "--allow-changes", *more)
        assert (other.code, "another server called orihon" in other.err) == (2, True)
        forced = told("--write", "--allow-changes", "--force", "--json", *more)
        assert json.loads(forced.out)["backup"] == f"{file}.before-orihon"
        assert Path(f"{file}.before-orihon").read_text(encoding="utf-8") == seen.out
        assert "--allow-changes" in str(read(file, section))


def test_a_file_keeps_its_rights_its_link_and_what_cannot_be_read(tmp_path: Path) -> None:
    (tmp_path / "dotfiles").mkdir()
    kept = tmp_path / "dotfiles" / "claude.json"
    kept.write_text('{"mine": 1}', encoding="utf-8")
    kept.chmod(0o640)
    link = tmp_path / ".claude.json"
    link.symlink_to(kept)
    words = ("mcp", "install", "claude", "--write")
    assert run(*words, cwd=tmp_path, HOME=str(tmp_path)).code == 0
    assert link.is_symlink()
    assert kept.stat().st_mode & 0o777 == 0o640
    assert json.loads(kept.read_text(encoding="utf-8"))["mine"] == 1
    for broken in (b"{ oops", b"\xff\xfe{}"):
        kept.write_bytes(broken)
        left = run(*words, cwd=tmp_path, HOME=str(tmp_path))
        assert (left.code, left.out, "by hand" in left.err) == (2, "", True)
        assert kept.read_bytes() == broken


def test_comments_of_opencode_stay(tmp_path: Path) -> None:
    file = tmp_path / "opencode.jsonc"
    file.write_text('{\n  // mine\n  "theme": "dark", // yes\n}\n', encoding="utf-8")
    assert run("mcp", "install", "opencode", "--project", "--write", cwd=tmp_path, HOME=str(tmp_path)).code == 0
    assert file.read_text(encoding="utf-8").startswith('{\n  // mine\n  "theme": "dark", // yes\n  "mcp": {')


def test_which_clients_there_are(tmp_path: Path) -> None:
    listed = run("mcp", "install", "--list", "--json", cwd=tmp_path, HOME=str(tmp_path))
    assert [one["client"] for one in json.loads(listed.out)["clients"]] == list(FILES)
    assert "Claude Code" in run("mcp", "install", "--list", cwd=tmp_path, HOME=str(tmp_path)).out
    for words in ((), ("claude", "--list"), ("emacs",), ("claude", "--force")):
        assert run("mcp", "install", *words, cwd=tmp_path, HOME=str(tmp_path)).code == 2
