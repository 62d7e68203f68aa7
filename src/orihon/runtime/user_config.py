"""Settings of the user whose task it is, asked of an HTTP service: ``fetch_user_config``.

``USE_USER_CONFIG_API=true`` turns it on; ``USER_CONFIG_API_URL`` is the address, ``USER_CONFIG_API_KEY`` the bearer
token. ``GET {address}/config/{task source}/{user}`` answers with sections of settings, or with these under ``data``.

Promises that a task never fails or waits long because of the service: when it cannot be reached, drips or answers
nonsense, the last good answer for that user is used, and without one the worker's own settings. Answers are kept for a
while, failures for a shorter one. A user may change what concerns the model and the compression, and nothing else: no
folders, no masking, no addresses that notices are sent to. The operator's key never goes to an address that a user
gave, and ``${NAME}`` in an answer is a plain text: the environment is not read out.

``settings_of_user``: the settings as one user may see them. No key, address, path, name of a file or of an environment
variable of the operator is among them, and nothing about other users.
"""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from http import HTTPStatus
from threading import Lock
from typing import Any
from urllib.parse import quote

from orihon.drivers.http import HttpClient
from orihon.errors import InvalidSettings
from orihon.settings import Settings, load_settings
from orihon.settings.in_force import SettingInForce, settings_in_force
from orihon.settings.model import names, section_names
from orihon.system import jsonio
from orihon.tasks.quotas import quota_of
from orihon.values.task import TaskIdentity, TaskKey

logger = logging.getLogger("orihon.user_config")

_DEFAULT_URL = "http://user-config-api:8080"
_ALLOWED = ("llm.", "compression.", "inheritance.", "memory.", "language")
# Not a user's: what is shared with all other users, and where connections may go.
_SHARED = ("llm.requests_per_minute", "llm.cache", "llm.cache_ttl", "llm.allow_metadata")
_KEPT_SECONDS = 300.0
_FAILURE_KEPT_SECONDS = 30.0
_TIMEOUT = 10.0
_MAX_BYTES = 1024 * 1024
_MOST_USERS = 1000


@dataclass(frozen=True, slots=True)
class UserConfigAPI:
    """Where the settings of users are."""

    url: str
    key: str = field(default="", repr=False)

    @classmethod
    def from_environment(cls, environ: Mapping[str, str] = os.environ) -> UserConfigAPI | None:
        """``None`` when it is not to be used."""
        if environ.get("USE_USER_CONFIG_API", "").strip().lower() not in ("true", "1", "yes", "on"):
            return None
        return cls(environ.get("USER_CONFIG_API_URL") or _DEFAULT_URL, environ.get("USER_CONFIG_API_KEY", ""))

    def address(self, source: str, user: str) -> str:
        """Names come from outside: they cannot lead anywhere else."""
        return f"{self.url.rstrip('/')}/config/{quote(source, safe='')}/{quote(user, safe='')}"


@dataclass(slots=True)
class _Kept:
    answer: dict[str, object] | None = None
    until: float = -1.0
    asking: Lock = field(default_factory=Lock)


_kept: dict[tuple[UserConfigAPI, str, str], _Kept] = {}
_lock = Lock()


def may_set(key: str) -> bool:
    """Is this setting one that a user may have different?"""
    return key.startswith(_ALLOWED) and key not in _SHARED


def fetch_user_config(task: TaskIdentity, config: Mapping[str, Any] | Settings | None) -> Settings:
    """The settings for a task: ``config`` with what its user wants different."""
    settings = load_settings(config)
    api = UserConfigAPI.from_environment()
    if api is None or not task.user:
        return settings
    wanted = _answer(api, task.key.task_source, task.user)
    try:
        return settings.replace(**_guarded(wanted, settings)) if wanted else settings
    except InvalidSettings as error:
        logger.warning("the settings of user %s cannot be used: %s", task.user, error)
        return settings


def _answer(api: UserConfigAPI, source: str, user: str) -> dict[str, object] | None:
    """What is kept, or what the service says now; others wait only for a request about the same user."""
    name = (api, source, user)
    with _lock:
        kept = _kept.pop(name, None) or _Kept()
        while len(_kept) >= _MOST_USERS:
            _kept.pop(next(iter(_kept)))
        _kept[name] = kept  # the newest last
    with kept.asking:
        if time.monotonic() < kept.until:
            return kept.answer
        try:
            kept.answer, kept.until = _settings_in(_get(api, source, user)), time.monotonic() + _KEPT_SECONDS
        except Exception as error:  # noqa: BLE001 - whatever is wrong with the service, the task goes on
            logger.warning("the settings of user %s could not be fetched: %s", user, error)
            kept.until = time.monotonic() + _FAILURE_KEPT_SECONDS
        return kept.answer


def _get(api: UserConfigAPI, source: str, user: str) -> object:
    """The JSON that the service answers; ``None`` when it does not know the user."""
    headers = {"Authorization": f"Bearer {api.key}"} if api.key else {}
    client = HttpClient(allow_metadata=True)  # the address is the operator's
    try:
        answer = client.fetch("GET", api.address(source, user), headers, seconds=_TIMEOUT, limit=_MAX_BYTES)
    finally:
        client.close()
    if answer.status == HTTPStatus.NOT_FOUND:
        return None
    if answer.status != HTTPStatus.OK:
        raise ValueError(f"status {answer.status}")
    return jsonio.decode(answer.body)


def _settings_in(answer: object) -> dict[str, object]:
    if answer is None:
        return {}
    if isinstance(answer, dict) and isinstance(answer.get("data"), dict):
        answer = answer["data"]
    if not isinstance(answer, dict):
        raise TypeError("the answer is not a JSON object")
    found = {}
    for key, value in _leaves(answer, ""):
        if may_set(key):
            found[key] = value
        else:
            logger.warning("a user may not set %s", key)
    return found


def _leaves(node: Mapping[str, object], prefix: str) -> Iterator[tuple[str, object]]:
    """The settings of ours in an answer, by key; what is not ours is none of our business."""
    for part, value in node.items():
        name = f"{prefix}{part}"
        if name in names():
            yield names()[name], value
        elif name in section_names() and isinstance(value, dict):
            yield from _leaves(value, f"{name}.")


def _guarded(wanted: Mapping[str, object], settings: Settings) -> dict[str, object]:
    """Without the operator's key where the address is the user's own."""
    guarded = dict(wanted)
    for key, value in wanted.items():
        provider, _, last = key.rpartition(".")
        if last == "base_url" and value != settings.get(key):
            guarded.setdefault(f"{provider}.api_key", None)
    return guarded


#: Where a value came from, besides ``default``.
USER, OPERATOR = "user", "operator"
_SECRET, _ADDRESS = ".api_key", ".base_url"
_QUOTAS = ("tasks", "tokens_per_day", "bytes")


def settings_of_user(user: str, settings: Settings, *, source: str = "web") -> list[SettingInForce]:
    """What a user may set, as it is in force for tasks of that user from ``source``; and the user's quotas."""
    own = fetch_user_config(TaskIdentity(TaskKey(source, "", "", "task", "-", user), user), settings)
    quota, limits = quota_of(settings, user), {f"quotas.{name}": name for name in _QUOTAS}
    found = []
    for one in settings_in_force(own):
        if one.key in limits:
            limit = getattr(quota, limits[one.key])
            found.append(replace(one, value=limit, origin=OPERATOR if limit is not None else "default"))
        elif may_set(one.key) and not one.key.endswith(_SECRET):
            found.append(_shown(one, own, settings))
    return found


def _shown(one: SettingInForce, own: Settings, settings: Settings) -> SettingInForce:
    if own.get(one.key) != settings.get(one.key):
        return replace(one, origin=USER)
    if one.origin == "default":
        return one
    return replace(one, origin=OPERATOR, value=None if one.key.endswith(_ADDRESS) else one.value)
