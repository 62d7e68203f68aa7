"""File tools without a shell stay without one (H4) and list what is there (L1); a slow service delays one user (L7)."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from orihon import ToolBox, ToolOptions
from orihon.errors import InvalidSettings, ToolFailed
from orihon.runtime import user_config
from orihon.runtime.child import WorkerSpec
from orihon.runtime.mcp.config import read_mcp_servers
from orihon.runtime.queue import QueueLimits
from orihon.runtime.tools import configured_toolbox
from orihon.runtime.workspace_tools import PROTECTED, Workspace, files_in_force
from orihon.settings import Settings, find_config, load_settings
from orihon.settings.config_file import ConfigFile, record_path, trust
from orihon.texts import set_language, speaking, text
from orihon.values.task import TaskIdentity, TaskKey
from tests.acceptance.test_cli import run_executable
from tests.helpers import refused

FSMONITOR = '[core]\n\trepositoryformatversion = 0\n\tfsmonitor = "touch PWNED; false"\n'


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    folder.mkdir()
    subprocess.run(["git", "init", "-q", str(folder)], check=True)
    hook = folder / ".git" / "hooks" / "pre-commit"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text("#!/bin/sh\n", encoding="utf-8")
    hook.chmod(0o755)
    return folder


def files_of(folder: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in folder.rglob("*") if path.is_file() and not path.is_symlink()}


def test_a_file_tool_makes_git_run_nothing(project: Path) -> None:
    """H4: with the shell off, ``.git/config`` and hooks are programs of the next ``git status`` and ``git commit``."""
    before = files_of(project)
    with ToolBox.from_config({}, ToolOptions(workspace=project)) as box:
        for path in (".git/config", ".git/hooks/pre-commit", ".git/hooks/post-checkout", "sub/.git/config"):
            answer = box.call("workspace_write_file", {"path": path, "content": FSMONITOR})
            assert answer.is_error
            assert "version control runs" in answer.text
        described = box.tools()["workspace_write_file"].description
        assert all(rule.names[0] in described for rule in PROTECTED)
    assert files_of(project) == before
    assert not (project / "sub").exists()
    subprocess.run(["git", "status"], cwd=project, check=True, capture_output=True)
    assert not (project / "PWNED").exists()


def test_a_file_tool_does_not_write_what_orihon_obeys(
    project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """H4 with H3: ``config.yaml`` in force is not written to, and one that is new is not obeyed."""
    monkeypatch.chdir(project)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(project / "home"))
    config = project / "config.yaml"
    config.write_text("tools: {workspace: .}\n", encoding="utf-8")
    evil = 'encryption: {key: "command:touch PWNED"}\n'
    with configured_toolbox(load_settings(find_config()), tmp_path / "contexts") as box:
        for path in ("config.yaml", "./x/../config.yaml", "CONFIG.YAML", "config.yaml.", "home/orihon/trusted.json"):
            answer = box.call("workspace_write_file", {"path": path, "content": evil})
            assert answer.is_error, path
            assert "configures this agent" in answer.text
    assert config.read_text(encoding="utf-8") == "tools: {workspace: .}\n"
    trust(ConfigFile.read(config))
    with configured_toolbox(Settings().replace(**{"tools.workspace": str(project)}), tmp_path / "contexts") as box:
        assert box.call("workspace_write_file", {"path": "home/orihon/trusted.json", "content": "{}"}).is_error
        assert not box.call("workspace_write_file", {"path": "config.yaml", "content": evil}).is_error
    ended = run_executable("keys", "show", cwd=project)
    assert ended.code == 2
    assert "orihon trust" in ended.err
    assert not (project / "PWNED").exists()


#: What a file system, or a program on one, takes for ``.git`` or for a configuration.
SPELLINGS = [
    *(".GIT/config", ".Git/hooks/x", ".git./config", ".git /config", ".git::$INDEX_ALLOCATION/config", "GIT~1/config"),
    *(".g\u200cit/config", ".gi\ufefft/config", "\uff0egit/config", "a/b/.git/config", ".git", ".\u017fvn/hooks/x"),
    *("link/config", "link/hooks/pre-commit", "way/to/config", "HEAD", "nested/head"),
    *(".hg/hgrc", ".svn/hooks/x", ".jj/config.toml", ".husky/pre-push", ".githooks/x", ".pre-commit-config.yaml"),
    *(
        ".vscode/tasks.json",
        ".VSCode/settings.json",
        ".idea/x.xml",
        "x.code-workspace",
        ".devcontainer/d.json",
        ".exrc",
    ),
    *(".envrc", ".env", ".ENV", ".env.local", "deep/.envrc", ".bashrc", ".ssh/authorized_keys", ".mise.toml"),
    *(".github/workflows/ci.yml", ".GitHub/Workflows/ci.yml", ".gitlab-ci.yml", ".gitlab-ci.yaml", "Jenkinsfile"),
    *(".circleci/config.yml", "azure-pipelines.yml", ".travis.yml", ".mcp.json", ".cursor/mcp.json", ".claude/x"),
    *(".semaphore/semaphore.yml", "cloudbuild.yaml", ".builds/x.yml", ".gitlab/ci/test.yml", ".forgejo/actions/x.yml"),
    *("AGENTS.md", "sub/CLAUDE.md", ".opencode/x", "opencode.json", ".kiro/hooks/x", ".github/copilot-instructions.md"),
    *("mise.local.toml", ".config/mise/config.toml", ".bash_aliases", ".npmrc", ".cargo/config.toml", ".lvimrc"),
    *("x.sublime-project", "lefthook-local.yml", ".huskyrc", ".sl/config", ".config/environment.d/x.conf"),
]


@pytest.mark.parametrize("path", SPELLINGS)
@pytest.mark.parametrize("language", ["en", "ja"])
def test_protected_names_are_refused_however_they_are_spelled(project: Path, path: str, language: str) -> None:
    (project / "link").symlink_to(".git")
    (project / "way").mkdir()
    (project / "way" / "to").symlink_to("../.git")
    before = sorted(project.rglob("*"))
    set_language(language)
    try:
        with pytest.raises(ToolFailed) as told:
            Workspace(project).write(path, b"x")
        assert told.value.reason in ("protected", "always_protected")
        assert told.value.fields["name"] in str(told.value)
        assert told.value.remedy
    finally:
        set_language(None)
    assert sorted(project.rglob("*")) == before


@pytest.mark.parametrize(
    "path",
    ["git/config", ".gitignore", ".gitattributes", ".github/CODEOWNERS", "environment", "src/header", "a/ci.yml"],
)
def test_what_is_no_program_is_written(project: Path, path: str) -> None:
    assert Workspace(project).write(path, b"x")


@pytest.mark.parametrize("page", ["docs/runtime.md", "docs/ja/runtime.md"])
def test_the_page_has_the_whole_list_with_its_reasons(page: str) -> None:
    said = (Path(__file__).parents[2] / page).read_text(encoding="utf-8")
    with speaking("ja" if "/ja/" in page else "en"):
        for rule in PROTECTED:
            names = ", ".join(f"`{name}`" for name in rule.names)
            assert f"| {names} | {text(f'tools.protected.{rule.why}')} |" in said


def test_a_person_may_allow_what_others_run_but_not_the_history(project: Path) -> None:
    allowed = Workspace(project, allowed=(".github/workflows", ".env"))
    assert allowed.write(".github/workflows/ci.yml", b"x")
    assert allowed.write(".env", b"x")
    with pytest.raises(ToolFailed):
        allowed.write(".envrc", b"x")
    for name in (".git", "nonsense"):
        with refused(InvalidSettings, "no_such_protection"):
            Workspace(project, allowed=(name,))
    settings = load_settings({"tools": {"workspace": str(project), "allow_writes": [".vscode"]}}, environ={})
    with configured_toolbox(settings, project.parent / "contexts") as box:
        assert not box.call("workspace_write_file", {"path": ".vscode/settings.json", "content": "{}"}).is_error


def test_a_repository_by_another_name_is_one(project: Path) -> None:
    """Git takes any folder with HEAD, objects and refs for a repository, and runs what its config names."""
    bare = project / "mirror"
    subprocess.run(["git", "init", "-q", "--bare", str(bare)], check=True)
    before = files_of(bare)
    for path in ("mirror/config", "mirror/hooks/update", "mirror/new/file"):
        with refused(ToolFailed, "always_protected"):
            Workspace(project).write(path, FSMONITOR.encode())
    assert files_of(bare) == before
    assert not (bare / "new").exists()
    (project / ".git").rename(project / "real")
    (project / ".git").symlink_to("real")
    with refused(ToolFailed, "always_protected"):
        Workspace(project).write("real/config", FSMONITOR.encode())


def test_links_to_what_is_in_force_are_no_way_to_it(project: Path) -> None:
    config = project / "conf" / "orihon.yaml"
    config.parent.mkdir()
    config.write_text("{}", encoding="utf-8")
    (project / "soft.txt").symlink_to(config)
    os.link(config, project / "hard.txt")
    workspace = Workspace(project, in_force=[config])
    for path in ("conf/orihon.yaml", "soft.txt", "hard.txt", "conf/ORIHON.yaml"):
        with refused(ToolFailed, "always_protected"):
            workspace.write(path, b"evil")
    assert config.read_text(encoding="utf-8") == "{}"
    os.link(project / ".git" / "hooks" / "pre-commit", project / "innocent")
    workspace.write("innocent", b"evil")  # the other name keeps what it had
    assert b"evil" not in (project / ".git" / "hooks" / "pre-commit").read_bytes()


def test_programs_prompts_and_keys_in_force_are_protected(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(project)
    for name in ("server.py", "prompt.md", "master.key", "askpass.sh", "config.yaml"):
        (project / name).write_text("x", encoding="utf-8")
    (project / "config.yaml").write_text(
        "mcp_servers: {mine: {command: python, args: [server.py]}}\n"
        "runtime: {system_prompt_file: prompt.md}\n"
        "encryption: {key: 'file:master.key', former_keys: ['command:./askpass.sh --quiet']}\n"
        "logging: {file: orihon.log}\ntools: {workspace: .}\n",
        encoding="utf-8",
    )
    settings = load_settings("config.yaml")
    # A worker is told the settings, and has to know where they came from.
    spec = WorkerSpec("1", settings, project.parent / "contexts", "x:y", QueueLimits.of(settings))
    told = WorkerSpec.from_json(spec.as_json()).settings
    assert told.file == settings.file == project / "config.yaml"
    servers = read_mcp_servers({"mcp_servers": settings.mcp_servers})
    workspace = Workspace(project, in_force=files_in_force(told, servers))
    for name in ("server.py", "prompt.md", "master.key", "askpass.sh", "config.yaml", "orihon.log"):
        with refused(ToolFailed, "always_protected"):
            workspace.write(name, b"evil")
    assert workspace.write("other.py", b"fine")
    assert record_path().parent in files_in_force(Settings())


def test_a_folder_that_becomes_a_link_is_not_listed(tmp_path: Path) -> None:
    """L1: between the look at a folder and the listing of it, somebody puts a link there."""
    workspace, outside = tmp_path / "workspace", tmp_path / "outside"
    for folder in (workspace / "d" / "below", outside):
        folder.mkdir(parents=True)
    (outside / "shadow").write_text("x", encoding="utf-8")
    (workspace / "d" / "below" / "own").write_text("x", encoding="utf-8")
    stop = threading.Event()

    def swap() -> None:
        folder, aside = workspace / "d", workspace / "aside"
        while not stop.is_set():
            folder.rename(aside)
            folder.symlink_to(outside)
            folder.unlink()
            aside.rename(folder)

    swapper = threading.Thread(target=swap)
    swapper.start()
    listed: set[str] = set()
    try:
        switch = sys.getswitchinterval()
        sys.setswitchinterval(1e-6)
        for _ in range(4000):
            for path in ("d", "."):
                try:
                    listed |= {found.name for found, _ in Workspace(workspace).walk(path)}
                except ToolFailed:
                    continue
    finally:
        sys.setswitchinterval(switch)
        stop.set()
        swapper.join()
    assert "own" in listed
    assert "shadow" not in listed


def test_the_base_folder_is_not_there_by_any_name(tmp_path: Path) -> None:
    workspace = Workspace(tmp_path, tmp_path / "contexts")
    (tmp_path / "contexts").mkdir()
    (tmp_path / "contexts" / "mask.key").write_text("x", encoding="utf-8")
    (tmp_path / "seen").write_text("x", encoding="utf-8")
    assert [str(path) for path, _ in workspace.walk(".")] == ["seen"]
    with refused(ToolFailed, "reserved"):
        workspace.write("contexts/tasks.db", b"x")


def test_a_slow_answer_about_one_user_keeps_no_other_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    """L7: ana's request hangs; bob's is answered meanwhile, and ana is asked about once."""
    from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

    asked, go_on = threading.Event(), threading.Event()
    requests: list[str] = []

    class Service(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            requests.append(self.path)
            if self.path.endswith("/ana"):
                asked.set()
                go_on.wait(60)
            body = b'{"compression": {"keep_recent": 3}}'
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Service)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    monkeypatch.setenv("USE_USER_CONFIG_API", "true")
    monkeypatch.setenv("USER_CONFIG_API_URL", f"http://127.0.0.1:{server.server_address[1]}")
    monkeypatch.setattr(user_config, "_TIMEOUT", 120.0)
    user_config._kept.clear()

    def fetched(user: str) -> int:
        task = TaskIdentity(TaskKey("web", "", "", "task", "1", user), user)
        return user_config.fetch_user_config(task, Settings()).compression.keep_recent

    found: list[int] = []
    waiting = [threading.Thread(target=lambda: found.append(fetched("ana")), daemon=True) for _ in range(2)]
    others = threading.Thread(target=lambda: found.append(fetched("bob")), daemon=True)
    try:
        for thread in waiting:
            thread.start()
        assert asked.wait(60)
        others.start()
        others.join(50)  # before ana's request ends; on a machine that stands still, too
        assert found == [3]
        go_on.set()
        for thread in waiting:
            thread.join(60)
        assert found == [3, 3, 3]
        assert sum(path.endswith("/ana") for path in requests) == 1
    finally:
        go_on.set()
        server.shutdown()
        server.server_close()
        user_config._kept.clear()
