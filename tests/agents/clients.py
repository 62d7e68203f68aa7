"""The clients: how each is started on a folder with nothing but arguments and an environment, and called on by a model.

They are installed by ``make agents`` beneath the virtual environment, in versions that are written down there.
"""

from __future__ import annotations

import os
import platform
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from orihon.system import jsonio
from tests.agents.job import WANTED, Hands, script
from tests.upstream import Reply, Request, Step
from tests.upstream.server import Aside

AGENTS = Path(sys.prefix) / "agents"
HERE = Path(__file__).parent
PATIENCE = 300  # seconds; nothing here takes so long unless it hangs
KEY = "sk-test-0123456789abcdef"
#: Whoever wants to reach anything but loopback is refused at once.
_NOWHERE = "http://127.0.0.1:9"
_PATCH = "*** Begin Patch\n*** Update File: {name}\n@@\n-{old}\n+{new}\n*** End Patch\n"


@dataclass(frozen=True, slots=True)
class Client:
    """One client. ``url`` in what it is given is where it shall speak to, without a path."""

    name: str
    wire: str
    program: Path
    arguments: Sequence[str]
    environment: Mapping[str, str]
    steps: Callable[[Path], list[Step]]
    aside: Aside | None = None
    window: int = 24_000  # so small that the work does not fit it
    is_append_only: bool = True  # does it send again what it has sent, and only add to it?
    needs: Sequence[str] = field(default=())  # programs that have to be on the machine

    def needed(self) -> None:
        """The test is skipped where the client is not installed; in continuous integration it fails."""
        place = AGENTS / self.program.relative_to(AGENTS).parts[0]
        is_whole = (place / ".made").exists() and self.program.exists()
        missing = [] if is_whole else [str(self.program)]
        missing += [name for name in self.needs if shutil.which(name) is None]
        if missing:
            reason = f"{' and '.join(missing)} not found; install the clients with: make agents"
            if os.environ.get("CI") == "true":
                pytest.fail(reason)
            pytest.skip(reason)

    def command(self, url: str) -> list[str]:
        """What is started."""
        return [str(self.program), *(argument.replace("{url}", url) for argument in self.arguments)]

    def variables(self, url: str, home: Path) -> dict[str, str]:
        """All that it finds in its environment."""
        plain = {
            "HOME": str(home),
            "PATH": os.environ["PATH"],
            "LANG": "C.UTF-8",
            "TERM": "dumb",
            "NO_COLOR": "1",
            "HTTP_PROXY": _NOWHERE,
            "HTTPS_PROXY": _NOWHERE,
            "http_proxy": _NOWHERE,
            "https_proxy": _NOWHERE,
            "NO_PROXY": "127.0.0.1,localhost",
            "no_proxy": "127.0.0.1,localhost",
            "PYTHONUNBUFFERED": "1",
        }
        return plain | {name: value.replace("{url}", url) for name, value in self.environment.items()}

    def run(self, url: str, folder: Path, home: Path) -> str:
        """From start to end; what it has said."""
        home.mkdir(parents=True, exist_ok=True)
        return finished(self.command(url), self.variables(url, home), folder)


def finished(command: Sequence[str], environment: Mapping[str, str], folder: Path) -> str:
    """What a program that ends well has printed. One that hangs is killed with all that it has started."""
    with subprocess.Popen(
        command,
        cwd=folder,
        env=dict(environment),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
    ) as process:
        try:
            out, err = process.communicate(timeout=PATIENCE)
        except subprocess.TimeoutExpired:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            out, err = process.communicate()
            pytest.fail(f"{command[0]} hung: {out[-3000:]!r} {err[-3000:]!r}")
    assert process.returncode == 0, (out[-3000:], err[-3000:])
    return out.decode(errors="replace")


def _played(hands: Hands) -> Callable[[Path], list[Step]]:
    return lambda folder: script(hands, folder)


def _titles(request: Request) -> Reply | None:
    """A request without tools is for a title, and no part of the work."""
    return None if request.tool_names() else Reply("A morning")


# ---- npm -----------------------------------------------------------------------------------------------------------


def _npm(name: str, place: str) -> Path:
    """The program in a package for this system. The packages around them would only look for it, with Node."""
    cpu = "arm64" if platform.machine() in ("arm64", "aarch64") else "x64"
    package = AGENTS / "npm" / "node_modules" / f"{name}-{platform.system().lower()}-{cpu}"
    return next(package.glob(place), package / place)


def _codex_patch(path: Path, old: str, new: str) -> Step:
    lines = [f'print("{text}")' for text in (old, new)]
    patch = _PATCH.format(name=path.name, old=lines[0], new=lines[1])
    return Reply("", calls=[("exec_command", {"cmd": f"apply_patch <<'EOF'\n{patch}EOF"})])


#: It asks for a WebSocket first, as it does of its own provider.
_CODEX_PROVIDER = (
    'model_providers.here={name="here",base_url="{url}/v1",env_key="OPENAI_API_KEY",wire_api="responses",'
    "supports_websockets=true}"
)

CODEX = Client(
    "codex",
    "responses",
    _npm("codex", "vendor/*/bin/codex"),
    [
        *("exec", "--skip-git-repo-check", "--dangerously-bypass-approvals-and-sandbox", "-m", "scripted"),
        *("-c", 'model_provider="here"'),
        *("-c", _CODEX_PROVIDER),
        WANTED,
    ],
    {"OPENAI_API_KEY": KEY},
    _played(
        Hands(
            shell=lambda command, said: Reply(said, calls=[("exec_command", {"cmd": command})], reasoning="Well."),
            edit=_codex_patch,
        )
    ),
)

CLAUDE = Client(
    "claude",
    "messages",
    _npm("claude", "claude"),
    ["-p", WANTED, "--dangerously-skip-permissions", "--output-format", "json"],
    {
        "ANTHROPIC_BASE_URL": "{url}",
        "ANTHROPIC_API_KEY": KEY,
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        "IS_SANDBOX": "1",
    },
    _played(
        Hands(
            shell=lambda command, said: Reply(
                said, calls=[("Bash", {"command": command, "description": "work"})], reasoning="Well."
            ),
            edit=lambda path, old, new: Reply(
                "", calls=[("Edit", {"file_path": str(path), "old_string": old, "new_string": new})]
            ),
            look=lambda path: Reply("", calls=[("Read", {"file_path": str(path)})]),
        )
    ),
    aside=_titles,
    window=28_000,
)


def _opencode(name: str, wire: str, package: str) -> Client:
    provider = {
        "npm": package,
        "options": {"baseURL": "{url}/v1", "apiKey": KEY},
        "models": {"scripted": {"limit": {"context": 400_000, "output": 8000}}},
    }
    settings = {
        "model": "here/scripted",
        "autoupdate": False,
        "share": "disabled",
        "permission": "allow",
        "provider": {"here": provider},
    }
    hands = Hands(
        shell=lambda command, said: Reply(said, calls=[("bash", {"command": command, "description": "work"})]),
        edit=lambda path, old, new: Reply(
            "", calls=[("edit", {"filePath": str(path), "oldString": old, "newString": new})]
        ),
        look=lambda path: Reply("", calls=[("read", {"filePath": str(path)})]),
    )
    return Client(
        name,
        wire,
        _npm("opencode", "bin/opencode"),
        ["run", WANTED],
        {
            "OPENCODE_CONFIG_CONTENT": jsonio.encode(settings).decode(),
            "OPENCODE_DISABLE_MODELS_FETCH": "1",
            "OPENCODE_DISABLE_AUTOUPDATE": "1",
            "OPENCODE_DISABLE_LSP_DOWNLOAD": "1",
            "OPENCODE_DISABLE_DEFAULT_PLUGINS": "1",
        },
        _played(hands),
        aside=_titles,
        window=25_000,
    )


OPENCODE = _opencode("opencode", "chat", "@ai-sdk/openai-compatible")
OPENCODE_MESSAGES = _opencode("opencode-messages", "messages", "@ai-sdk/anthropic")

# ---- PyPI ----------------------------------------------------------------------------------------------------------

_OPENAI = {
    "OPENAI_BASE_URL": "{url}/v1",
    "OPENAI_API_BASE": "{url}/v1",
    "OPENAI_API_KEY": KEY,
    "LITELLM_LOCAL_MODEL_COST_MAP": "True",
}


def _shell_only(tool: str, **more: str) -> Hands:
    def shell(command: str, said: str = "") -> Reply:
        return Reply(said, calls=[(tool, {"command": command, **more})])

    return Hands(shell=shell, edit=lambda path, old, new: shell(f"sed -i 's/{old}/{new}/' {path.name}"))


def _ended_by(hands: Hands, end: Callable[[str], Reply]) -> Hands:
    return Hands(shell=hands.shell, edit=hands.edit, end=end)


MINI = Client(
    "mini-swe-agent",
    "chat",
    AGENTS / "litellm" / "bin" / "mini",
    ["-y", "--exit-immediately", "-m", "openai/scripted", "-t", WANTED],
    {**_OPENAI, "MSWEA_CONFIGURED": "true", "MSWEA_COST_TRACKING": "ignore_errors", "MSWEA_SILENT_STARTUP": "1"},
    _played(
        _ended_by(
            _shell_only("bash"),
            lambda said: Reply(
                said, calls=[("bash", {"command": f"echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT && echo '{said}'"})]
            ),
        )
    ),
    window=13_000,
)

LITELLM = Client(
    "litellm",
    "chat",
    AGENTS / "litellm" / "bin" / "python",
    [str(HERE / "litellm_agent.py"), WANTED],
    _OPENAI,
    _played(_shell_only("run")),
    window=12_000,
)

SMOLAGENTS = Client(
    "smolagents",
    "chat",
    AGENTS / "litellm" / "bin" / "python",
    [str(HERE / "smolagents_agent.py"), WANTED],
    _OPENAI,
    _played(_ended_by(_shell_only("run"), lambda said: Reply("", calls=[("final_answer", {"answer": said})]))),
    window=12_000,
)

OPENHANDS = Client(
    "openhands",
    "chat",
    AGENTS / "openhands" / "bin" / "python",
    [str(HERE / "openhands_agent.py"), WANTED],
    {**_OPENAI, "OPENHANDS_SUPPRESS_BANNER": "1"},
    _played(
        Hands(
            shell=_shell_only("terminal", security_risk="LOW", summary="work").shell,
            edit=lambda path, old, new: Reply(
                "",
                calls=[
                    (
                        "file_editor",
                        {
                            "command": "str_replace",
                            "path": str(path),
                            "old_str": old,
                            "new_str": new,
                            "security_risk": "LOW",
                            "summary": "mend",
                        },
                    )
                ],
            ),
            end=lambda said: Reply("", calls=[("finish", {"message": said, "summary": "end"})]),
        )
    ),
    window=20_000,
    needs=("tmux",),
)


def _aider_steps(folder: Path) -> list[Step]:
    """It has no tools: it takes edits out of the text, and says itself what is wrong with them, at most three times."""

    def edit(said: str, old: str, new: str) -> Reply:
        notes = "\n".join((folder / f"notes-{number}.txt").read_text() for number in (1, 2))
        block = f"greet.py\n```python\n<<<<<<< SEARCH\n{old}\n=======\n{new}\n>>>>>>> REPLACE\n```\n"
        return Reply(f"{said}\n\nWhat I know:\n\n{notes}\n\n{block}", piece=2000)

    return [
        edit("I change it.", 'print("hullo")', 'print("good morning")'),
        edit("That is how it is spelt.", 'print("hello")', 'print("good morning"'),
        edit("I close the bracket.", 'print("good morning"', 'print("good evening")'),
        edit("The test is right.", 'print("good evening")', 'print("good morning")'),
    ]


AIDER = Client(
    "aider",
    "chat",
    AGENTS / "aider" / "bin" / "aider",
    [
        *("--yes-always", "--no-git", "--no-check-update", "--no-show-model-warnings", "--analytics-disable"),
        *("--no-show-release-notes", "--no-detect-urls", "--no-pretty", "--no-fancy-input", "--map-tokens", "0"),
        *("--no-suggest-shell-commands", "--edit-format", "diff", "--model", "openai/scripted"),
        *("--auto-test", "--test-cmd", "python3 greet.py > out.txt && grep -q morning out.txt"),
        *("--message", WANTED, "greet.py"),
    ],
    {**_OPENAI, "AIDER_MAX_CHAT_HISTORY_TOKENS": "1000000"},  # or it has the model summarize in between
    _aider_steps,
    window=16_000,
    is_append_only=False,
)

CLIENTS = (CODEX, CLAUDE, OPENCODE, OPENCODE_MESSAGES, AIDER, MINI, OPENHANDS, SMOLAGENTS, LITELLM)
