"""Unmodified clients finish a piece of work through the proxy, which has to fold on the way."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.agents.clients import CLIENTS, Client
from tests.agents.doors import kept_in, opened
from tests.agents.job import check_job, make_job


@pytest.mark.parametrize("client", CLIENTS, ids=lambda client: client.name)
def test_a_piece_of_work(client: Client, tmp_path: Path) -> None:
    client.needed()
    folder = tmp_path / "work"
    make_job(folder)
    with opened(client.steps(folder), tmp_path, aside=client.aside, window=client.window) as door:
        client.run(door.url, folder, tmp_path / "home")
        assert {request.wire for request in door.upstream.turns} == {client.wire}
        door.check(least_turns=4)
        if client.is_append_only:
            door.check_prefix()
    check_job(folder)
    kept = kept_in(door.base)
    assert kept.main["metadata"]["proxy"]["wire"] == client.wire
    if client.is_append_only:
        kept.check()
