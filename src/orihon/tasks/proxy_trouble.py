"""What the proxy could not do as it should: ``proxy.json`` in the base folder, for the doctor, until the next start."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from orihon.system import jsonio
from orihon.system.clock import utc_now
from orihon.system.files import replace_file, wrapping

FILE = "proxy.json"


@dataclass(frozen=True, slots=True)
class ProxyTrouble:
    """The last thing that went wrong, and how often something has."""

    at: str
    why: str
    count: int


def keep_trouble(base: Path, why: str, count: int) -> None:
    """Write down the latest."""
    replace_file(base / FILE, [jsonio.encode({"at": utc_now(), "why": why, "count": count})], durable=False)


def read_trouble(base: Path) -> ProxyTrouble | None:
    """What was written down, as far as it can be read."""
    try:
        kept = jsonio.decode((base / FILE).read_bytes())
        return ProxyTrouble(str(kept["at"]), str(kept["why"]), int(kept["count"]))
    except (OSError, ValueError, KeyError, TypeError):
        return None


def forget_trouble(base: Path) -> None:
    """It is over."""
    with wrapping(base / FILE):
        (base / FILE).unlink(missing_ok=True)
