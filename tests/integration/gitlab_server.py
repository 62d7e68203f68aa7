"""A small stateful GitLab: issues, merge requests, notes, reactions and labels of API v4, in GitLab's own shapes."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

from tests.integration.forge_http import Answer, ForgeServer, Request

PROJECT = "group/sub/shop"
TOKENS = {"agent-token": "agent", "second-token": "second", "hanako-token": "hanako"}

_ITEM = re.compile(r"/api/v4/projects/([^/]+)/(issues|merge_requests)(?:/(\d+)(?:/(notes|award_emoji)(?:/(\d+))?)?)?")

_MEMBER = re.compile(r"/api/v4/projects/([^/]+)/members/all/(\d+)")


class GitLabServer(ForgeServer):
    """Holds one project."""

    def __init__(self) -> None:
        super().__init__()
        self.items: dict[tuple[str, int], dict[str, Any]] = {}
        self.notes: dict[tuple[str, int], list[dict[str, Any]]] = {}
        self.reactions: dict[tuple[str, int], list[dict[str, Any]]] = {}
        self.levels: dict[str, int] = {"hanako": 40}  # the members of the project, by name
        self._last_id = 100

    def add(self, kind: str, title: str, description: str | None = "", labels: tuple[str, ...] = ()) -> int:
        """A new issue or merge request; its number."""
        number = 1 + max((iid for each, iid in self.items if each == kind), default=0)
        item = {
            "id": self._next_id(),
            "iid": number,
            "project_id": 1,
            "title": title,
            "description": description,
            "state": "opened",
            "created_at": self._now(),
            "labels": list(labels),
            "author": _user("hanako"),
            "web_url": f"{self.url}/{PROJECT}/-/{kind}/{number}",
        }
        if kind == "merge_requests":
            item |= {"source_branch": "faster", "target_branch": "main"}
        self.items[kind, number] = item
        self.notes[kind, number] = []
        self.reactions[kind, number] = []
        return number

    def say(self, kind: str, number: int, body: str, author: str = "hanako", **more: Any) -> None:
        self.notes[kind, number].append(self._note(body, author) | more)

    def answer(self, request: Request) -> Answer:
        user = TOKENS.get(request.headers.get("PRIVATE-TOKEN", ""))
        if user is None:
            return self._json(401, {"message": "401 Unauthorized"})
        parts = urlsplit(request.path)
        if parts.path == "/api/v4/user":
            return self._json(200, _user(user))
        if (member := _MEMBER.fullmatch(parts.path)) and unquote(member[1]) == PROJECT:
            levels = {_user(name)["id"]: level for name, level in self.levels.items()}
            who = int(member[2])
            known = {"id": who, "access_level": levels.get(who)}
            return self._json(200, known) if who in levels else self._json(404, {"message": "404 Not found"})
        found = _ITEM.fullmatch(parts.path)
        if found is None or unquote(found[1]) not in (PROJECT, "1"):
            return self._json(404, {"message": "404 Project Not Found"})
        data = json.loads(request.body) if request.body else {}
        with self.lock:
            return self._route(request.method, found, parse_qs(parts.query), data, user)

    def _route(
        self, method: str, found: re.Match[str], query: dict[str, list[str]], data: dict[str, Any], user: str
    ) -> Answer:
        kind, number, part, part_id = found[2], found[3], found[4], found[5]
        if number is None:
            return self._page(self._list(kind, query), query, found[0])
        at = (kind, int(number))
        if at not in self.items:
            return self._json(404, {"message": "404 Not found"})
        if part is None:
            return self._json(200, self._changed(at, data) if method == "PUT" else self.items[at])
        if part == "notes":
            if method == "POST":
                self.notes[at].append(self._note(data["body"], user))
                return self._json(201, self.notes[at][-1])
            newest_first = query.get("sort") != ["asc"]  # GitLab's default
            notes = sorted(self.notes[at], key=lambda note: int(note["id"]), reverse=newest_first)
            return self._page(notes, query, found[0])
        if method == "DELETE":
            return self._remove_reaction(at, int(part_id))
        return (
            self._react(at, data["name"], user) if method == "POST" else self._page(self.reactions[at], query, found[0])
        )

    def _list(self, kind: str, query: dict[str, list[str]]) -> list[dict[str, Any]]:
        labels = set(",".join(query.get("labels", query.get("labels[]", []))).split(",")) - {""}
        state = query.get("state", ["all"])[0]
        items = [item for (each, _), item in sorted(self.items.items()) if each == kind]
        return [item for item in items if labels <= set(item["labels"]) and state in ("all", item["state"])]

    def _changed(self, at: tuple[str, int], data: dict[str, Any]) -> dict[str, Any]:
        item = self.items[at]
        names = [name for name in item["labels"] if name not in data.get("remove_labels", "").split(",")]
        item["labels"] = names + [name for name in data.get("add_labels", "").split(",") if name and name not in names]
        return item

    def _react(self, at: tuple[str, int], name: str, user: str) -> Answer:
        if any(each["name"] == name and each["user"]["username"] == user for each in self.reactions[at]):
            return self._json(404, {"message": "404 Award Emoji Name has already been taken Not Found"})
        reaction = {"id": self._next_id(), "name": name, "user": _user(user), "created_at": self._now()}
        self.reactions[at].append(reaction)
        return self._json(201, reaction)

    def _remove_reaction(self, at: tuple[str, int], which: int) -> Answer:
        before = len(self.reactions[at])
        self.reactions[at] = [each for each in self.reactions[at] if each["id"] != which]
        if len(self.reactions[at]) == before:
            return self._json(404, {"message": "404 Award Emoji Not Found"})
        return Answer(204)

    def _page(self, rows: list[dict[str, Any]], query: dict[str, list[str]], path: str) -> Answer:
        page, size = int(query.get("page", ["1"])[0]), int(query.get("per_page", ["20"])[0])
        answer = self._json(200, rows[(page - 1) * size : page * size])
        if len(rows) > page * size:
            rest = "".join(f"&{name}={value}" for name in query for value in query[name] if name != "page")
            answer.headers["Link"] = f'<{self.url}{path}?page={page + 1}{rest.replace(" ", "%20")}>; rel="next"'
        return answer

    def _json(self, status: int, data: Any) -> Answer:
        return Answer(status, json.dumps(data).encode(), {"Content-Type": "application/json"})

    def _note(self, body: str, author: str) -> dict[str, Any]:
        return {
            "id": self._next_id(),
            "body": body,
            "author": _user(author),
            "created_at": self._now(),
            "system": False,
        }

    def _now(self) -> str:
        return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")

    def _next_id(self) -> int:
        self._last_id += 1
        return self._last_id


def _user(name: str) -> dict[str, Any]:
    return {"id": sum(name.encode()), "username": name, "name": name.title(), "state": "active"}
