"""Nothing goes to an address at which a cloud hands out credentials: no notice, and no conversation."""

from __future__ import annotations

import ipaddress

import pytest

from orihon.drivers import http_line
from orihon.errors import Unreachable
from orihon.llm.retry import may_pass
from orihon.llm.scripted import Reply, ScriptedModel
from orihon.llm.transport import Transport
from orihon.notifications.webhook import Webhook
from tests.receivers import receiving


@pytest.mark.parametrize(
    "address",
    [
        *(
            "169.254.169.254",
            "169.254.170.2",
            "fe80::1%lo",
            "fd00:ec2::254",
            "100.100.100.200",
            "::ffff:169.254.169.254",
        ),
        *("fd20:ce::254", "fd00:c1::a9fe:a9fe", "fd00:42::42"),
        *("::169.254.169.254", "64:ff9b::169.254.169.254", "2002:a9fe:a9fe::1"),
    ],
)
def test_addresses_of_metadata(address: str) -> None:
    assert http_line.is_metadata(address)


@pytest.mark.parametrize(
    "address", ["127.0.0.1", "::1", "10.0.0.7", "192.168.1.4", "8.8.8.8", "2001:db8::1", "::7f00:1"]
)
def test_other_addresses(address: str) -> None:
    assert not http_line.is_metadata(address)


ANOTHER_WAY = [
    *("169.254.169.254", "2852039166", "0xa9fea9fe", "0251.0376.0251.0376", "169.254.43518", "[::ffff:a9fe:a9fe]"),
    *("metadata.google.internal", "METADATA.google.internal."),
]


@pytest.mark.parametrize("host", ANOTHER_WAY)
def test_a_proxy_is_not_asked_for_such_an_address(host: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The connection goes to the proxy: its address says nothing about where the request ends."""
    with receiving() as proxy:
        for name in ("http_proxy", "HTTP_PROXY"):
            monkeypatch.setenv(name, proxy.url)
        monkeypatch.setenv("no_proxy", "")
        failure = Webhook(f"http://{host}/latest").post("1", b"{}")
        with pytest.raises(Unreachable) as caught, Transport().post_file(f"http://{host}/v1", {}, b"{}"):
            pass
        assert failure is not None
        assert "metadata" in failure.reason
        assert caught.value.reason == "metadata"
        assert proxy.raw == []


def test_such_an_address_gets_nothing_unless_it_is_allowed(monkeypatch: pytest.MonkeyPatch) -> None:
    """A receiver on loopback stands in for one: no test may make the real address its own."""
    monkeypatch.setattr(http_line, "METADATA", (ipaddress.ip_network("127.0.0.0/8"),))
    with receiving() as receiver:
        failure = Webhook(receiver.url).post("1", b"{}")
        assert failure is not None
        assert "metadata" in failure.reason
        assert receiver.raw == []
        assert Webhook(receiver.url, allow_metadata=True).post("2", b"{}") is None
        assert len(receiver.raw) == 1


def test_a_model_there_is_not_asked_unless_it_is_allowed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where users choose the address of their model, they could have the worker fetch its own credentials."""
    monkeypatch.setattr(http_line, "METADATA", (ipaddress.ip_network("127.0.0.0/8"),))
    with ScriptedModel([Reply("ok")]) as model:
        url = model.base_url + "/v1/chat/completions"
        with pytest.raises(Unreachable) as caught, Transport().post_file(url, {}, b"{}"):
            pass
        assert caught.value.reason == "metadata"
        assert not may_pass(caught.value)
        assert model.requests == []
        with Transport(allow_metadata=True).post_file(url, {}, b'{"stream": false}') as response:
            assert response.status == 200


@pytest.mark.parametrize("proxy", ["gopher://127.0.0.1:1", "http://[::1"])
def test_a_proxy_that_cannot_be_used_is_a_failure_like_any_other(proxy: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ALL_PROXY", proxy)
    failure = Webhook("http://receiver.example/hook").post("1", b"{}")
    assert failure is not None
    with pytest.raises(Unreachable), Transport().post_file("http://model.example/v1", {}, b"{}"):
        pass
