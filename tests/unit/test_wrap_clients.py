"""What clients are given: an address by way of the proxy, nothing secret in arguments, what a person has set."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from orihon.errors import InvalidInput
from orihon.proxy.clients import CLIENTS, Addresses, client_for
from orihon.proxy.upstream import ProxyAddress
from orihon.proxy.wrapping import installed, named_upstream

TOKEN = "s3cret"
HERE = Addresses("http://127.0.0.1:8", TOKEN, "/w/0a1b2c3d4e5f")
THERE = Addresses(
    "http://127.0.0.1:8", TOKEN, "/w/0a1b2c3d4e5f", "https://openrouter.ai/api/v1/", "https://a.example/x"
)


def test_every_address_leads_to_its_upstream() -> None:
    claude, aider = client_for("claude"), client_for("aider")
    assert claude.environment(HERE, {}) == {"ANTHROPIC_BASE_URL": "http://127.0.0.1:8/t/s3cret/w/0a1b2c3d4e5f"}
    made = aider.environment(THERE, {"AIDER_MAX_CHAT_HISTORY_TOKENS": "9"})
    assert set(made) == {"OPENAI_BASE_URL", "OPENAI_API_BASE", "ANTHROPIC_BASE_URL", "ANTHROPIC_API_BASE"}
    address = ProxyAddress.of(made["OPENAI_BASE_URL"].removeprefix("http://127.0.0.1:8") + "/chat/completions")
    assert (address.token, address.wrap) == (TOKEN, "0a1b2c3d4e5f")
    assert (address.upstream, address.path) == ("https://openrouter.ai/api", "/v1/chat/completions")
    address = ProxyAddress.of(made["ANTHROPIC_BASE_URL"].removeprefix("http://127.0.0.1:8") + "/v1/messages")
    assert (address.upstream, address.wire_path) == ("https://a.example/x", "/v1/messages")


@pytest.mark.parametrize("path", ["/backend-api/codex/responses", "/v4/responses", "/responses"])
def test_an_upstream_may_have_another_version(path: str) -> None:
    address = ProxyAddress.of(f"/to/https://chat.example{path}")
    assert (address.upstream or "") + address.path == f"https://chat.example{path}"
    assert address.wire_path == "/v1/responses"
    assert ProxyAddress.of(path).wire_path == path, "of our own upstreams only what they have"


def test_an_upstream_is_named_as_each_wire_wants_it() -> None:
    aider = client_for("aider")
    for address in ("https://b.example", "https://b.example/v1/"):
        made = aider.upstream(address)
        assert made["OPENAI_API_BASE"] == "https://b.example/v1"
        assert made["ANTHROPIC_BASE_URL"] == "https://b.example"
    codex = client_for("codex").upstream("https://chatgpt.com/backend-api/codex")
    assert codex["OPENAI_BASE_URL"] == "https://chatgpt.com/backend-api/codex"


def test_the_arguments_of_codex_hold_no_secret_and_its_environment_does() -> None:
    codex = client_for("/opt/bin/codex")
    assert codex.arguments is not None
    said = codex.arguments(THERE, {"OPENAI_API_KEY": "k"})
    assert TOKEN not in " ".join(said)
    assert 'base_url="http://127.0.0.1:8/w/0a1b2c3d4e5f/to/https://openrouter.ai/api/v1"' in said[3]
    assert 'env_key="OPENAI_API_KEY"' in said[3]
    assert "requires_openai_auth=true" in codex.arguments(THERE, {})[3]
    assert codex.environment(THERE, {}) == {"ORIHON_PROXY_TOKEN": TOKEN}


def test_the_configuration_of_opencode_is_added_to() -> None:
    given = {"provider": {"openai": {"options": {"apiKey": "k"}}, "other": {}}, "model": "openai/x"}
    environment = {"OPENCODE_CONFIG_CONTENT": json.dumps(given), "OPENAI_API_KEY": "k"}
    made = json.loads(client_for("opencode").environment(HERE, environment)["OPENCODE_CONFIG_CONTENT"])
    given["provider"]["openai"]["options"]["baseURL"] = HERE.openai  # type: ignore[index]
    assert made == given
    made = json.loads(client_for("opencode").environment(HERE, {})["OPENCODE_CONFIG_CONTENT"])
    assert {name: one["options"]["baseURL"] for name, one in made["provider"].items()} == {
        "openai": HERE.openai,
        "anthropic": f"{HERE.anthropic}/v1",
    }


def test_a_proxy_of_the_network_is_not_asked_for_this_machine() -> None:
    made = client_for("anything").environment(HERE, {"HTTPS_PROXY": "http://far:1", "NO_PROXY": "intra, localhost"})
    assert made["NO_PROXY"] == made["no_proxy"] == "intra,localhost,127.0.0.1"
    assert client_for("anything").environment(HERE, {}).keys() == {
        "OPENAI_BASE_URL",
        "OPENAI_API_BASE",
        "ANTHROPIC_BASE_URL",
    }


def test_an_address_of_a_proxy_of_ours_is_no_upstream(tmp_path: Path) -> None:
    names = ("OPENAI_BASE_URL", "OPENAI_API_BASE")
    assert named_upstream(names, {}, tmp_path) is None
    assert named_upstream(names, {"OPENAI_API_BASE": "https://b.example/v1"}, tmp_path) == "https://b.example/v1"
    ours = "http://127.0.0.1:9/t/x/w/0a1b2c3d4e5f/s/a"  # nobody listens there any more
    assert named_upstream(names, {"OPENAI_BASE_URL": f"{ours}/v1"}, tmp_path) is None
    assert (
        named_upstream(names, {"OPENAI_BASE_URL": f"{ours}/to/https://b.example/v1"}, tmp_path)
        == "https://b.example/v1"
    )
    with pytest.raises(InvalidInput, match="not encrypted"):
        named_upstream(names, {"OPENAI_BASE_URL": "http://far.example/v1"}, tmp_path)


def test_programs_are_found_by_the_names_of_clients_and_by_their_own(tmp_path: Path) -> None:
    program = tmp_path / "smolagent"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o700)
    assert installed("smolagents", client_for("smolagents"), str(tmp_path)) == str(program)
    assert installed(str(program), client_for(str(program)), None) == str(program)
    assert client_for(str(program)).name == "smolagents"
    with pytest.raises(InvalidInput, match="nothing-such is not installed"):
        installed("nothing-such", client_for("nothing-such"), str(tmp_path))
    assert len({client.name for client in CLIENTS}) == len(CLIENTS)
