"""The same clients under ``orihon wrap``, which points each at the proxy without its knowing."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import pytest

from orihon.proxy.running import ProxyPlace
from tests.acceptance.test_cli import ORIHON
from tests.agents.clients import AIDER, CLAUDE, CODEX, MINI, SMOLAGENTS, Client, finished
from tests.agents.doors import PATIENCE, kept_in, orihon
from tests.agents.job import check_job, make_job
from tests.upstream import CutConnection, Request, Step, Upstream

_PLACE = "{url}"


@pytest.mark.parametrize("client", [CODEX, CLAUDE, AIDER, MINI, SMOLAGENTS], ids=lambda client: client.name)
def test_a_wrapped_client_needs_no_address(client: Client, tmp_path: Path) -> None:
    client.needed()
    folder, home, base = tmp_path / "work", tmp_path / "home", tmp_path / "contexts"
    make_job(folder)
    home.mkdir()
    pointed = [name for name, value in client.environment.items() if _PLACE in value]
    environment = {name: value for name, value in client.variables("", home).items() if name not in pointed}
    arguments = [word for word in client.arguments if word != "-c" and not word.startswith("model_provider")]
    with Upstream(client.steps(folder), aside=client.aside) as upstream:
        wrap = [str(ORIHON), "--base-dir", str(base), "wrap", "--upstream", upstream.base_url, "--"]
        environment["ORIHON_PROXY__LINGER_SECONDS"] = "1"
        finished([*wrap, str(client.program), *arguments], environment, folder)
        assert upstream.is_over
        assert {request.wire for request in upstream.turns} == {client.wire}
    check_job(folder)
    give_up = time.monotonic() + PATIENCE
    while ProxyPlace(base).is_alive():
        assert time.monotonic() < give_up, "it ends by itself"
        time.sleep(0.1)
    kept = [task["metadata"]["proxy"] for task in orihon(base, "list")["tasks"]]
    assert [one["wire"] for one in kept if one["kind"] == "main"] == [client.wire]


def test_a_client_goes_on_when_the_proxy_is_killed_under_it(tmp_path: Path) -> None:
    client = MINI  # asks again for minutes, however long it takes to start a proxy
    client.needed()
    folder, home, base = tmp_path / "work", tmp_path / "home", tmp_path / "contexts"
    make_job(folder)
    home.mkdir()
    place, killed = ProxyPlace(base), list[int]()

    def kill(request: Request) -> Step:
        """In the middle of a request: the client has asked, and gets no answer."""
        running = place.running()
        assert running is not None
        os.kill(running.pid, signal.SIGKILL)
        killed.append(running.pid)
        return CutConnection(0)

    steps = client.steps(folder)
    steps[5:5] = [kill]
    steps[2:2] = [kill]
    pointed = [name for name, value in client.environment.items() if _PLACE in value]
    environment = {name: value for name, value in client.variables("", home).items() if name not in pointed}
    arguments = [word for word in client.arguments if word != "-c" and not word.startswith("model_provider")]
    with Upstream(steps, aside=client.aside) as upstream:
        wrap = [str(ORIHON), "--base-dir", str(base), "wrap", "--upstream", upstream.base_url, "--"]
        finished([*wrap, str(client.program), *arguments], environment | {"ORIHON_PROXY__LINGER_SECONDS": "1"}, folder)
        assert upstream.is_over
    assert len(set(killed)) == 2, "each time another one"
    check_job(folder)
    give_up = time.monotonic() + PATIENCE
    while place.is_alive():
        assert time.monotonic() < give_up, "it ends by itself"
        time.sleep(0.1)
    kept_in(base, is_folded=False).check()
