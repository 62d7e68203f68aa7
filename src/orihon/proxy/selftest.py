"""Whether folding works here and now: a sample is folded before the first client comes.

A proxy that only passes on looks like one that works. So it refuses to be healthy unless it has made a conversation
fit that did not, and has found again, byte for byte, what it had folded.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

from orihon.base import Base
from orihon.proxy.service import ProxyService, settings_for_proxy
from orihon.proxy.wires import BY_NAME
from orihon.settings import Settings
from orihon.system import jsonio

_WINDOW = 8_000
_TURNS = 40
_LINE = "line {number}: the quick brown fox reads src/module_{number}.py and finds {number} things to do\n"


def self_test(settings: Settings) -> str:
    """Nothing when all is well; else what is wrong, in one line."""
    try:
        with tempfile.TemporaryDirectory(prefix="orihon-selftest-") as folder:
            return _played(Path(folder), settings)
    except Exception as error:  # noqa: BLE001 - whatever it is, it is the answer
        return f"{type(error).__name__}: {error}"


def _played(folder: Path, settings: Settings) -> str:
    private: dict[str, Any] = {
        "context_storage.base_dir": folder,
        "context_storage.backend": "files",
        "context_storage.durability": "os",
        "database.url": None,
        "encryption.enabled": False,
        "proxy.window": _WINDOW,
    }
    service = ProxyService(Base(folder, settings_for_proxy(settings.replace(**private))))
    try:
        sample = _sample()
        raw = jsonio.encode({"model": "self-test", "messages": sample})
        request = service.request(BY_NAME["chat"], "http://127.0.0.1:1", raw, {}, "self-test")
        assert request is not None
        exchange = service.begin(request, raw, {})
        service.release(exchange)
        if exchange.view != "folded" or len(exchange.body) >= len(raw):
            return service.last_trouble or "a conversation that does not fit was not folded"
        assert exchange.taken is not None
        log = exchange.taken.conversation.task.log()
        kept = [stored.message.content for stored in log if stored.message.role != "system"]
        return "" if kept == [entry["content"] for entry in sample] else "a folded message was not found again"
    finally:
        service.close()


def _sample() -> list[dict[str, str]]:
    said = []
    for turn in range(_TURNS):
        text = "".join(_LINE.format(number=100 * turn + line) for line in range(10))
        said += [{"role": "user", "content": f"Step {turn}\n{text}"}, {"role": "assistant", "content": f"Did {turn}."}]
    return [*said, {"role": "user", "content": "Go on."}]
