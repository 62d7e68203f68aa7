"""The vault: the model is sent what the disk never has."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from orihon.llm.openai import OpenAIClient
from orihon.llm.scripted import Reply, ScriptedModel, ScriptedRequest, ScriptStep

SECRET = "ghp_" + "v7W8" * 9


@pytest.mark.parametrize("backend", ["files", "sqlite"])
@pytest.mark.parametrize("vault", [True, False])
def test_only_the_wire_has_the_value(tmp_path: Path, backend: str, vault: bool) -> None:
    on_disk: list[bytes] = []

    def answer(request: ScriptedRequest) -> ScriptStep:
        on_disk.extend(path.read_bytes() for path in tmp_path.rglob("*") if path.is_file())
        return Reply("ok")

    with ScriptedModel(answer) as model:
        config = {
            "context_storage": {"backend": backend},
            "masking": {"vault": vault},
            "llm": {"openai": {"base_url": model.base_url}},
        }
        client = OpenAIClient(config, context_dir=tmp_path / "task")
        client.send_user_message(f'say "hello" with {SECRET}\nplease')
        client.get_response()
        client.close()
        sent = json.dumps(model.requests[0].body)
    assert (SECRET in sent) is vault
    assert ("[GITHUB_TOKEN]#" in sent) is not vault
    on_disk.extend(path.read_bytes() for path in tmp_path.rglob("*") if path.is_file())
    assert SECRET.encode() not in b"".join(on_disk)
    assert b"[GITHUB_TOKEN]#" in b"".join(on_disk)
