"""The API is what its description says: valid OpenAPI, in both languages, and Schemathesis finds nothing against it."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Iterator
from functools import cache
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator
from openapi_spec_validator import validate
from schemathesis import GenerationMode
from schemathesis import checks as found

from orihon.texts import LANGUAGES, speaking
from orihon.values.records import Compression, ModelCall, Usage
from orihon.web.call import Endpoint
from orihon.web.openapi import document, examples
from orihon.web.routes import ENDPOINTS
from orihon.web.server import WebServer
from scripts.docs import ROOT
from tests.command_walk import prepare
from tests.damage import settings_for
from tests.serving import Client, serving

#: What must hold for every answer. What a request means is not in a schema: a task that is named well need not exist.
CHECKS = [
    found.not_a_server_error,
    found.status_code_conformance,
    found.content_type_conformance,
    found.response_headers_conformance,
    found.response_schema_conformance,
]
TASKS = ("done-1", "packed-1", "queued-1", "paused-1", "undone-1", "failed-1", "waiting-1", "@last", "none-1")
every_endpoint = pytest.mark.parametrize("endpoint", ENDPOINTS, ids=lambda one: one.name)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[WebServer]:
    folder = tmp_path_factory.mktemp("api")
    prepare(folder)
    with serving(folder / "contexts", settings_for("files")) as started:
        yield started


@cache
def described() -> Any:
    with speaking("en"):
        return schemathesis.openapi.from_dict(document(ENDPOINTS))


@pytest.mark.parametrize("language", LANGUAGES)
def test_the_description_is_valid_in_both_languages(language: str) -> None:
    with speaking(language):
        made = document(ENDPOINTS)
    validate(made)
    names = [one.name for one in ENDPOINTS]
    assert len(set(names)) == len(names)
    assert set(examples(ENDPOINTS)) == set(names)


def test_every_answer_and_every_field_is_described() -> None:
    assert [one.name for one in ENDPOINTS if not one.answer] == []
    fields = [(one.name, field.name) for one in ENDPOINTS for field in (*one.query, *one.body) if not field.about]
    assert fields == []


def test_a_change_that_asked_a_model_is_as_described() -> None:
    calls = (ModelCall("a-model", Usage(2215, 0, 37)), ModelCall("another", cost=0.2))
    shape = {"$ref": "#/components/schemas/compression", "components": document(ENDPOINTS)["components"]}
    for made in (Compression(3, "compress", calls=calls), Compression(3, "compress")):
        assert list(Draft202012Validator(shape).iter_errors(made.as_dict())) == []


def test_the_server_hands_out_what_the_documentation_has(server: WebServer) -> None:
    answer = Client(server).as_program("GET", "/api/openapi.json")
    assert answer.value == json.loads((ROOT / "docs" / "openapi.json").read_text(encoding="utf-8")), "run 'make docs'"


def test_the_page_of_the_api_has_every_endpoint_in_both_languages(server: WebServer) -> None:
    reader = Client(server).log_in()
    for language in LANGUAGES:
        page = reader.ask("GET", "/api", headers={"Cookie": f"{reader.cookie}; orihon_language={language}"})
        assert page.status == 200
        with speaking(language):
            called = examples(ENDPOINTS)
        assert all(f'id="{name}"' in page.text for name in called)
        assert page.text.count("<pre") == len(ENDPOINTS) + 1


@every_endpoint
def test_nothing_is_found_against_an_endpoint(endpoint: Endpoint, server: WebServer, api_examples: int) -> None:
    operation = described()[endpoint.path][endpoint.method]
    headers = {"Authorization": f"Bearer {server.token}", "Host": f"127.0.0.1:{server.port}"}
    tasks = st.sampled_from(TASKS) | st.none()

    for mode in (GenerationMode.POSITIVE, GenerationMode.NEGATIVE):

        @settings(
            max_examples=api_examples,
            deadline=None,
            database=None,
            derandomize=True,
            phases=(Phase.explicit, Phase.generate),
            suppress_health_check=list(HealthCheck),
        )
        @given(case=operation.as_strategy(generation_mode=mode), task=tasks)
        def ask(case: Any, task: str | None) -> None:
            if task is not None and "task" in case.path_parameters:
                case.path_parameters["task"] = task
            answer = case.call(base_url=server.address, headers=headers, timeout=60)
            case.validate_response(answer, checks=CHECKS)

        ask()


def test_an_answer_that_is_not_as_described_would_be_found(server: WebServer) -> None:
    described_wrongly = document(ENDPOINTS)
    answer = described_wrongly["paths"]["/api/health"]["get"]["responses"]["200"]
    answer["content"]["application/json"]["schema"]["required"].append("mood")
    case = schemathesis.openapi.from_dict(described_wrongly)["/api/health"]["GET"].Case()
    said = case.call(base_url=server.address, headers={"Authorization": f"Bearer {server.token}"}, timeout=60)
    with pytest.raises(BaseExceptionGroup) as caught:
        case.validate_response(said, checks=CHECKS)
    assert "mood" in str(caught.value.exceptions[0])


def test_the_examples_work_as_they_are_written(server: WebServer) -> None:
    if shutil.which("curl") is None:
        pytest.skip("no curl; install it with: apt-get install curl")
    environment = {"ADDRESS": server.address.rstrip("/"), "TOKEN": server.token, "PATH": "/usr/bin:/bin"}
    for name in ("listTasks", "showTask", "listMessages", "search", "previewCompression"):
        command = examples(ENDPOINTS)[name].replace("@last", "paused-1")
        run = subprocess.run(
            ["sh", "-c", f"{command} -sf"], env=environment, capture_output=True, check=False, timeout=120
        )
        assert run.returncode == 0, (command, run.stderr)
        assert isinstance(json.loads(run.stdout), dict)
