"""``Finding``: one thing that ``verify`` or the doctor found wrong, as a value.

Where it is, what is wrong and what to do about it are looked up under ``findings.<check>.<detail>`` in
``orihon/texts``, so that a finding can be said in English and Japanese. Knows nothing of disks.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from orihon.system.json_shapes import AsJson
from orihon.texts import text

#: ``error``: history or the proof of it is damaged. ``warning``: something derived or left over; nothing is lost.
Severity = Literal["error", "warning"]
#: ``none``: for a person to do. ``possible``, ``done``, ``failed``: what the doctor can do, has done, could not do.
RepairState = Literal["none", "possible", "done", "failed"]


@dataclass(frozen=True, slots=True)
class Finding(AsJson):
    """Something that is not as it must be."""

    json_name = "finding"
    json_fields = "task|null check detail where severity cause remedy repair note|null fields=plain_fields"

    check: str  # what was looked at: log, folds, view, folder, catalogue …
    detail: str  # what is wrong with it
    where: str  # the file, record or row
    task: str = ""  # the task's UUID; empty when it is about the base folder
    severity: Severity = "error"
    repair: RepairState = "none"
    note: str = ""  # why a repair failed, or where it has kept what was there
    fields: Mapping[str, Any] = field(default_factory=dict, hash=False)

    @property
    def kind(self) -> tuple[str, str]:
        """What the finding is about, whichever task it was found in."""
        return self.check, self.detail

    @property
    def cause(self) -> str:
        """What is wrong."""
        return self._text("cause")

    @property
    def remedy(self) -> str:
        """What to do about it, or what the doctor does."""
        return self._text("remedy")

    def __str__(self) -> str:
        return f"{self.where}: {self.cause} {self.remedy}"

    @property
    def plain_fields(self) -> dict[str, Any]:
        plain = bool | int | float | str | None
        return {name: value if isinstance(value, plain) else str(value) for name, value in self.fields.items()}

    def _text(self, which: str) -> str:
        return text(f"findings.{self.check}.{self.detail}.{which}", **{"where": self.where, **self.fields})


Report = Callable[[Finding], None]


class Findings:
    """Collects findings; of one kind the first few, and how many more there were: a log may be wrong all over."""

    LIMIT = 20

    def __init__(self) -> None:
        self._kept: list[Finding] = []
        self._seen: Counter[tuple[str, str]] = Counter()

    def report(self, finding: Finding) -> None:
        self._seen[finding.kind] += 1
        if self._seen[finding.kind] <= self.LIMIT:
            self._kept.append(finding)

    def about(self, task: str) -> list[Finding]:
        """What was found, as findings about this task."""
        worst = {finding.kind: finding.severity for finding in self._kept}
        worst |= {finding.kind: "error" for finding in self._kept if finding.severity == "error"}
        more = [
            Finding("more", "same", ".".join(kind), severity=worst[kind], fields={"count": count - self.LIMIT})
            for kind, count in self._seen.items()
            if count > self.LIMIT
        ]
        return [replace(finding, task=task) for finding in (*self._kept, *more)]
