"""Runs LangGraph's conformance suite for savers on ours and prints what came of it: FOLDER and settings as JSON."""

from __future__ import annotations

import asyncio
import json
import sys
import tempfile
from collections.abc import AsyncIterator

from langgraph.checkpoint.conformance import checkpointer_test, validate

from orihon.adapters.langgraph import OrihonSaver
from orihon.base import Base

FOLDER, SETTINGS = sys.argv[1], json.loads(sys.argv[2])


@checkpointer_test(name="orihon")  # type: ignore[untyped-decorator]
async def ours() -> AsyncIterator[OrihonSaver]:
    with tempfile.TemporaryDirectory(dir=FOLDER) as folder, Base(folder, SETTINGS) as base, OrihonSaver(base) as saver:
        yield saver


report = asyncio.run(validate(ours))
found = {name: [one.tests_passed, one.tests_failed, one.failures] for name, one in report.results.items()}
sys.stdout.write(json.dumps(found))
