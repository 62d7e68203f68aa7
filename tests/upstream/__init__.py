"""A model provider on loopback for tests and benchmarks: three wires, a script, cached prefixes, strict histories."""

from __future__ import annotations

from orihon.llm.scripted import CutConnection, Fault, Slow
from orihon.llm.scripted_dialects import Reply
from tests.upstream.records import Request
from tests.upstream.server import Step, Upstream
from tests.upstream.wires import overflowing

__all__ = ["CutConnection", "Fault", "Reply", "Request", "Slow", "Step", "Upstream", "overflowing"]
