"""``workspace_read_file``, ``workspace_write_file``, ``workspace_list_files``, ``workspace_search``.

Each answers with no more than the output limit and says how to get the rest. Searching is for plain text: an expression
from a model could keep the process busy for ever.

A path is resolved first, links included, and refused when it leaves the folder. The resolved path is then opened from
the folder down, one name after the other and never through a link, so that nobody can put a link in its way meanwhile.
A folder of Orihon's own in it (masking key, catalogue, other tasks) is as if it were not there.
Only regular files are read; a file is written whole or not at all and keeps its mode.

Who may write files must not get a shell by it. ``PROTECTED`` names what other programs run or obey without being asked;
``files_in_force`` what Orihon does. Neither is written to, however its name is spelled and by whatever link.
"""

from __future__ import annotations

import fnmatch
import io
import os
import secrets
import shlex
import stat
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from orihon.errors import InvalidSettings, ToolFailed
from orihon.runtime.builtin_tools import BuiltinTool, Deadline
from orihon.runtime.mcp.config import McpServerConfig
from orihon.runtime.tool import Arguments, ServerAnswer, excerpt
from orihon.settings import Settings
from orihon.settings.config_file import record_path
from orihon.texts import text

_FOLDER_FLAGS = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
# A pipe would otherwise be waited for.
_FILE_FLAGS = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


@dataclass(frozen=True, slots=True)
class Protected:
    """Names that are not written to, nor anything below; why is said by ``tools.protected`` of the texts."""

    why: str
    names: tuple[str, ...]  # in small letters, with wildcards; "a/b" is b right below a
    may_be_allowed: bool = True


PROTECTED = (
    Protected(
        "history",
        (
            ".git",
            ".hg",
            ".svn",
            ".jj",
            ".sl",
            ".bzr",
            ".pijul",
            "_darcs",
            "cvs",
            "_fossil_",
            ".fslckout",
            "git~[0-9]*",
            "head",
        ),
        may_be_allowed=False,
    ),
    Protected(
        "hooks",
        (
            ".husky",
            ".huskyrc*",
            ".githooks",
            ".pre-commit-config.yaml",
            ".lefthook*",
            "lefthook*.y*ml",
            ".overcommit.yml",
        ),
    ),
    Protected(
        "editor",
        (
            *(".vscode", ".idea", ".devcontainer", ".devcontainer.json", ".vs", ".zed", "*.code-workspace"),
            *(".exrc", ".vimrc", ".nvimrc", ".lvimrc", ".nvim.lua", ".vim", ".config/nvim", ".dir-locals.el", ".fleet"),
            *("*.sublime-project", ".emacs", ".emacs.d"),
        ),
    ),
    Protected(
        "environment",
        (
            *(".env", ".env.*", ".envrc", ".direnv", ".mise*.toml", "mise*.toml", ".mise", ".config/mise"),
            *("mise/config*.toml", ".tool-versions", ".asdfrc", ".netrc", ".ssh"),
            *(
                ".gnupg",
                ".gitconfig",
                ".bashrc",
                ".bash_profile",
                ".bash_login",
                ".bash_logout",
                ".bash_aliases",
                ".profile",
            ),
            *(".zshrc", ".zshenv", ".zprofile", ".zlogin", ".zlogout", ".kshrc", ".inputrc", ".xprofile", ".xsession*"),
            *(".xinitrc", ".pam_environment", ".tmux.conf", ".gdbinit", ".lldbinit", ".curlrc", ".wgetrc", ".npmrc"),
            *(".yarnrc*", ".pnpmfile.cjs", ".pypirc", ".condarc", ".cargo/config*", ".aws", ".kube", ".docker"),
            *(".config/git", ".config/fish", ".config/systemd", ".config/autostart", ".config/environment.d"),
        ),
    ),
    Protected(
        "ci",
        (
            *(".github/workflows", ".github/actions", ".gitea/workflows", ".forgejo/workflows", ".gitlab-ci.y*ml"),
            *(".gitea/actions", ".forgejo/actions", ".gitlab/ci", ".semaphore", ".tekton", ".harness", ".builds"),
            *(".build.y*ml", "codefresh.y*ml", "cloudbuild.y*ml", "buildspec.y*ml", ".github/dependabot.y*ml"),
            *(".circleci", ".buildkite", ".teamcity", ".woodpecker", ".woodpecker.y*ml", ".travis.y*ml", ".drone.y*ml"),
            *(".cirrus.y*ml", ".appveyor.y*ml", "appveyor.y*ml", "azure-pipelines.y*ml", "bitbucket-pipelines.y*ml"),
            "jenkinsfile",
        ),
    ),
    Protected(
        "agents",
        (
            *(".mcp.json", "mcp.json", ".claude", ".cursor", ".codex", ".gemini", ".aider.conf.yml", ".continue"),
            *(".windsurf", ".roo", ".opencode", "opencode.json*", ".kiro", ".amazonq", ".junie", ".clinerules"),
            *(".cursorrules", ".windsurfrules", ".github/copilot-instructions.md", ".github/instructions"),
            *("agents.md", "agents.override.md", "claude.md", "claude.local.md", "gemini.md"),
        ),
    ),
)


def files_in_force(settings: Settings, servers: Iterable[McpServerConfig] = ()) -> list[Path]:
    """What says what Orihon does, and the files that it runs: its configuration, prompts, keys, programs, the log."""
    prompt, own = settings.runtime.system_prompt_file, record_path().parent
    named = [settings.file, own, prompt, settings.logging.file, settings.audit.anchor_file]
    sources = [settings.encryption.key or "", *settings.encryption.former_keys]
    words = [Path(word).expanduser() for source in sources for word in _words(source.partition(":")[2])]
    words += [(server.cwd or Path()) / word for server in servers for word in server.command]
    return [path for path in named if path is not None] + [path for path in words if _identity(path) is not None]


def _words(line: str) -> list[str]:
    try:
        return [line, *shlex.split(line)] if line else []
    except ValueError:
        return [line]


def _folded(name: str) -> str:
    """A name as the most forgiving file system takes it: no case, no trailing dots, no marks that nobody sees."""
    plain = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", name).casefold())
    seen = "".join(letter for letter in plain if unicodedata.category(letter) not in ("Cf", "Cc", "Mn"))
    return seen.partition(":")[0].rstrip(". ")


class Workspace:
    """One folder and what is below it."""

    def __init__(
        self,
        folder: Path,
        reserved: Path | None = None,
        in_force: Iterable[Path] = (),
        allowed: Sequence[str] = (),
    ) -> None:
        """What is ``reserved`` is as if not there; what is ``in_force``, or protected and not allowed, is only read."""
        self.root = folder.resolve()
        self._reserved = None if reserved is None else reserved.resolve()
        if self._reserved is not None and self.root.is_relative_to(self._reserved):
            raise InvalidSettings("workspace_in_base", path=folder, base=reserved)
        self._in_force = [path.resolve() for path in in_force]
        known = {name for rule in PROTECTED if rule.may_be_allowed for name in rule.names}
        for name in allowed:
            if name not in known:
                raise InvalidSettings("no_such_protection", name=name, known=", ".join(sorted(known)))
        self._rules = [
            (rule, name, name.split("/")) for rule in PROTECTED for name in rule.names if name not in allowed
        ]

    def parts(self, path: str) -> tuple[str, ...]:
        """The names from the folder to the file that a path means, as it is now."""
        if "\0" in path:
            raise ToolFailed("outside", path=path.replace("\0", "\\0"))
        try:
            resolved = (self.root / path).resolve()
        except (OSError, RuntimeError) as error:  # too long, or links in a circle
            raise ToolFailed("io", path=path, detail=str(error)) from error
        except UnicodeEncodeError as error:  # half a character, which no file system has
            raise ToolFailed("no_file", path=path.encode("utf-8", "replace").decode()) from error
        if not resolved.is_relative_to(self.root):
            raise ToolFailed("outside", path=path)
        if self._reserved is not None and resolved.is_relative_to(self._reserved):
            raise ToolFailed("reserved", path=path)
        return resolved.relative_to(self.root).parts

    def _check_writable(self, parts: tuple[str, ...], path: str) -> None:
        folded = [_folded(part) for part in parts]
        for rule, name, wanted in self._rules:
            for at in range(len(folded) - len(wanted) + 1):
                if all(map(fnmatch.fnmatchcase, folded[at:], wanted)):
                    reason = "protected" if rule.may_be_allowed else "always_protected"
                    raise ToolFailed(reason, path=path, name=name, why=text(f"tools.protected.{rule.why}"))
        target = self.root.joinpath(*parts)
        spelled = [_folded(part) for part in target.parts]
        for kept in self._in_force:
            same = [_folded(part) for part in kept.parts] == spelled[: len(kept.parts)]
            linked = _identity(target)
            if same or (linked is not None and linked == _identity(kept)):
                raise ToolFailed("always_protected", path=path, name=kept.name, why=text("tools.protected.in_force"))

    @contextmanager
    def opened(self, path: str) -> Iterator[int]:
        """A descriptor of a regular file, to be read."""
        parts = self.parts(path)
        with _told(path), self._folder(parts[:-1]) as folder:
            if not parts:
                raise ToolFailed("is_folder", path=path)
            fd = os.open(parts[-1], _FILE_FLAGS, dir_fd=folder)
            try:
                mode = os.fstat(fd).st_mode
                if not stat.S_ISREG(mode):
                    raise ToolFailed("is_folder" if stat.S_ISDIR(mode) else "not_file", path=path)
                yield fd
            finally:
                os.close(fd)

    def write(self, path: str, data: bytes) -> bool:
        """Put a file in its place, whole; folders on the way are made. Was there none before?"""
        parts = self.parts(path)
        if not parts:
            raise ToolFailed("is_folder", path=path)
        self._check_writable(parts, path)
        with _told(path), self._folder(parts[:-1], create=True) as folder:
            mode = _mode_of(parts[-1], folder, path)
            temporary = f".{secrets.token_hex(8)}"
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
            fd = os.open(temporary, flags, 0o666 if mode is None else 0o600, dir_fd=folder)
            try:
                with os.fdopen(fd, "wb") as file:
                    if mode is not None:
                        os.fchmod(fd, mode)
                    file.write(data)
                    file.flush()
                    os.fsync(fd)
                os.rename(temporary, parts[-1], src_dir_fd=folder, dst_dir_fd=folder)
            except BaseException:
                with suppress(OSError):
                    os.unlink(temporary, dir_fd=folder)
                raise
            return mode is None

    @contextmanager
    def _folder(self, parts: tuple[str, ...], *, create: bool = False) -> Iterator[int]:
        fd = os.open(self.root, _FOLDER_FLAGS)
        try:
            for part in parts:
                if create:
                    _refuse_repository(fd, "/".join(parts))
                    with suppress(FileExistsError):
                        os.mkdir(part, dir_fd=fd)
                below = os.open(part, _FOLDER_FLAGS, dir_fd=fd)
                os.close(fd)
                fd = below
                if self._is_own(fd):  # by another spelling, on a file system that has several
                    raise ToolFailed("reserved", path="/".join(parts))
            if create:
                _refuse_repository(fd, "/".join(parts))
            yield fd
        finally:
            os.close(fd)

    def _is_own(self, fd: int) -> bool:
        own = None if self._reserved is None else _identity(self._reserved)
        return own is not None and _identity(fd) == own

    def walk(self, path: str) -> Iterator[tuple[Path, int]]:
        """The regular files below a path with their sizes, in order; ``.git`` and links are passed by.

        Each folder is opened from the one above, and left when it is not the one that was seen there.
        """
        parts = self.parts(path)
        name = parts[-1] if parts else "."
        with _told(path), self._folder(parts[:-1]) as above:
            status = os.stat(name, dir_fd=above, follow_symlinks=False)
            if stat.S_ISREG(status.st_mode):
                yield Path(*parts), status.st_size
                return
            for folder, folders, files, fd in os.fwalk(name, dir_fd=above):
                if self._is_own(fd):
                    folders.clear()
                    continue
                folders[:] = sorted(name for name in folders if _folded(name) != ".git")
                for file in sorted(files):
                    with suppress(OSError):  # it may vanish meanwhile
                        status = os.stat(file, dir_fd=fd, follow_symlinks=False)
                        if stat.S_ISREG(status.st_mode):
                            yield Path(*parts[:-1], folder, file), status.st_size


def _identity(place: Path | int) -> tuple[int, int] | None:
    try:
        status = os.stat(place)
    except (OSError, ValueError):  # a word of a command line may be anything
        return None
    return status.st_dev, status.st_ino


def _refuse_repository(folder: int, path: str) -> None:
    """A repository of git is one by what is in it, whatever it is called; its configuration names programs."""
    with suppress(FileNotFoundError):
        for name in ("HEAD", "objects", "refs"):
            os.stat(name, dir_fd=folder, follow_symlinks=False)
        raise ToolFailed("always_protected", path=path, name="HEAD", why=text("tools.protected.history"))


def _mode_of(name: str, folder: int, path: str) -> int | None:
    try:
        status = os.stat(name, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        return None
    if stat.S_ISDIR(status.st_mode):
        raise ToolFailed("is_folder", path=path)
    if not stat.S_ISREG(status.st_mode):
        raise ToolFailed("not_file", path=path)
    return stat.S_IMODE(status.st_mode)


@contextmanager
def _told(path: str) -> Iterator[None]:
    """The system's errors as a model can use them."""
    try:
        yield
    except FileNotFoundError as error:
        raise ToolFailed("no_file", path=path) from error
    except OSError as error:
        raise ToolFailed("io", path=path, detail=error.strerror or str(error)) from error


MOST_FILE_BYTES = 16 << 20
_SNIFFED = 8192
_LONGEST_LINE = 300  # characters of a line that a search shows
_CHECK_EVERY = 4096  # lines between two looks at the clock

_PATH = {"type": "string", "description": "Path relative to the workspace."}
_LINES = {"type": "string", "description": 'Lines to give, counted from 1: "10-20", "10-" or "10". Default: all.'}
_PATTERN = {"type": "string", "description": 'Only files whose path or name matches, for example "*.py".'}


def workspace_tools(
    folder: Path,
    limit: int,
    reserved: Path | None = None,
    in_force: Iterable[Path] = (),
    allowed: Sequence[str] = (),
) -> list[BuiltinTool]:
    """The file tools of one workspace; see ``Workspace`` for what is read and written."""
    tools = _FileTools(Workspace(folder, reserved, in_force, allowed), limit)
    named = "; ".join(f"{rule.why}: {', '.join(rule.names[:4])} …" for rule in PROTECTED)
    return [
        BuiltinTool(
            "read_file",
            "Read a text file of the workspace. A long file comes in parts: ask for the lines you need.",
            {"path": _PATH, "lines": _LINES},
            tools.read,
            ["path"],
        ),
        BuiltinTool(
            "write_file",
            "Write a text file of the workspace, replacing what it had. Missing folders are made. Refused, because "
            f"programs run or obey what is there ({named}), and what configures this agent.",
            {"path": _PATH, "content": {"type": "string", "description": "The whole new content."}},
            tools.write,
            ["path", "content"],
            ordered=True,
        ),
        *_finding_tools(tools),
    ]


def _finding_tools(tools: _FileTools) -> list[BuiltinTool]:
    return [
        BuiltinTool(
            "list_files",
            "List files of the workspace with their sizes in bytes, also in folders below.",
            {
                "path": {**_PATH, "description": "Folder to list, relative to the workspace. Default: all of it."},
                "pattern": _PATTERN,
                "limit": {"type": "integer", "description": "At most so many files. Default: 500."},
            },
            tools.list,
        ),
        BuiltinTool(
            "search",
            "Find lines of text files in the workspace that contain a text (not an expression).",
            {
                "query": {"type": "string", "description": "The text to look for."},
                "path": {**_PATH, "description": "File or folder to search. Default: the whole workspace."},
                "pattern": _PATTERN,
                "ignore_case": {"type": "boolean", "description": "Default: false."},
                "limit": {"type": "integer", "description": "At most so many lines. Default: 100."},
            },
            tools.search,
            ["query"],
        ),
    ]


class _FileTools:
    def __init__(self, workspace: Workspace, limit: int) -> None:
        self._workspace = workspace
        self._limit = limit

    def read(self, arguments: Arguments, deadline: Deadline) -> ServerAnswer:
        path = arguments.text("path")
        first, last = arguments.lines("lines")
        with self._workspace.opened(path) as fd:
            size = os.fstat(fd).st_size
            if size > MOST_FILE_BYTES:
                raise ToolFailed("too_large", path=path, size=size, most=MOST_FILE_BYTES)
            with os.fdopen(os.dup(fd), "rb") as file:
                if b"\0" in file.read(_SNIFFED):
                    raise ToolFailed("binary", path=path)
                file.seek(0)
                found = excerpt(_text_lines(file), first, last, self._limit)
        if not found.lines and size:
            raise ToolFailed("no_lines", path=path, first=first)
        return ServerAnswer(found.told(), is_cut=found.is_cut)

    def write(self, arguments: Arguments, deadline: Deadline) -> ServerAnswer:
        path, content = arguments.text("path"), arguments.text("content")
        data = content.encode()
        if len(data) > MOST_FILE_BYTES:
            raise ToolFailed("too_large", path=path, size=len(data), most=MOST_FILE_BYTES)
        is_new = self._workspace.write(path, data)
        return ServerAnswer(text("tools.file_new" if is_new else "tools.file_replaced", path=path, size=len(data)))

    def list(self, arguments: Arguments, deadline: Deadline) -> ServerAnswer:
        most = arguments.number("limit", 500, most=10_000)
        names: list[str] = []
        for path, size in self._files(arguments, deadline, "workspace_list_files"):
            if len(names) == most:
                return ServerAnswer("\n".join([*names, text("tools.more_found", most=most)]), is_cut=True)
            names.append(f"{path.as_posix()}\t{size}")
        return ServerAnswer("\n".join(names) or text("tools.nothing_found"))

    def search(self, arguments: Arguments, deadline: Deadline) -> ServerAnswer:
        query = arguments.text("query")
        if not query.strip():
            raise ToolFailed("argument_missing", name="query")
        fold = arguments.flag("ignore_case")
        wanted = query.casefold() if fold else query
        most = arguments.number("limit", 100, most=1000)
        found: list[str] = []
        for path, size in self._files(arguments, deadline, "workspace_search"):
            if size > MOST_FILE_BYTES:
                continue
            for number, line in self._lines(path, deadline):
                if wanted in (line.casefold() if fold else line):
                    if len(found) == most:
                        return ServerAnswer("\n".join([*found, text("tools.more_found", most=most)]), is_cut=True)
                    found.append(f"{path.as_posix()}:{number}: {line.strip()[:_LONGEST_LINE]}")
        return ServerAnswer("\n".join(found) or text("tools.nothing_found"))

    def _files(self, arguments: Arguments, deadline: Deadline, tool: str) -> Iterator[tuple[Path, int]]:
        pattern = arguments.text("pattern", "*")
        for path, size in self._workspace.walk(arguments.text("path", ".")):
            deadline.check(tool)
            if fnmatch.fnmatchcase(path.as_posix(), pattern) or fnmatch.fnmatchcase(path.name, pattern):
                yield path, size

    def _lines(self, path: Path, deadline: Deadline) -> Iterator[tuple[int, str]]:
        try:
            with self._workspace.opened(path.as_posix()) as fd, os.fdopen(os.dup(fd), "rb") as file:
                if b"\0" in file.read(_SNIFFED):
                    return
                file.seek(0)
                for number, line in enumerate(_text_lines(file), start=1):
                    if number % _CHECK_EVERY == 0:
                        deadline.check("workspace_search")
                    yield number, line
        except ToolFailed as error:
            if error.reason == "timed_out":
                raise  # any other means a file that cannot be read: there may be others


def _text_lines(file: io.BufferedReader) -> Iterator[str]:
    for line in file:
        yield line.decode(errors="replace").removesuffix("\n")
