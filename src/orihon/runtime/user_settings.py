"""The settings as one user may see them: what is in force for that user's tasks, and nothing of the operator's own.

Promises that no key, address, path, name of a file or of an environment variable of the operator is among them, and
nothing about other users.
"""

from __future__ import annotations

from dataclasses import replace

from orihon.runtime.user_config import fetch_user_config, may_set
from orihon.settings import Settings
from orihon.settings.in_force import SettingInForce, settings_in_force
from orihon.tasks.quotas import quota_of
from orihon.values.task import TaskIdentity, TaskKey

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
