"""``orihon serve`` through the real command: start, ends, refusals, encryption."""

from __future__ import annotations

import datetime
import ipaddress
import json
import os
import re
import signal
import socket
import ssl
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from orihon.cli.serve import open_server, shown_in_browser
from orihon.settings import load_settings
from tests.acceptance.test_cli import ORIHON, environment, run
from tests.damage import start_task
from tests.helpers import Child
from tests.integration.run_supervisor import eventually
from tests.serving_command import Served, serve

PATIENCE = 240.0


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("serve") / "contexts"
    start_task(folder, load_settings({}, environ={}), uuid="done-1").complete()
    return folder


@pytest.fixture(scope="module")
def served(base: Path) -> Iterator[Served]:
    with serve(base) as started:
        yield started


def test_it_says_where_it_is_and_lets_in_who_has_the_token(served: Served) -> None:
    assert served.said == {"address": f"http://127.0.0.1:{served.port}/", "token": served.token, "read_only": False}
    assert httpx.get(served.address, timeout=PATIENCE).status_code == 401
    assert "done-1" in httpx.get(served.address, headers=served.bearer, timeout=PATIENCE).text


def test_it_tells_people_the_address_with_the_token_behind_the_mark(base: Path) -> None:
    command = [str(ORIHON), "--base-dir", str(base), "serve", "--port", "0"]
    with Child(command, stdout=subprocess.PIPE, env=environment("ja"), text=True) as process:
        assert process.stdout is not None
        line = process.stdout.readline()
        assert httpx.get(line.split()[-1].partition("#")[0], timeout=PATIENCE).status_code == 401
        process.send_signal(signal.SIGINT)
        rest = process.stdout.read()
        assert process.wait(PATIENCE) == 0
    assert "#token=" in line
    assert "Ctrl-C" in line + rest


def test_a_service_keeps_the_token_out_of_its_output(base: Path) -> None:
    shown = run("--base-dir", base, "serve", "--show-token").out.strip()
    with serve(base, "--hide-token") as started:
        assert started.said["token"] is None
        answer = httpx.get(started.address, headers={"Authorization": f"Bearer {shown}"}, timeout=PATIENCE)
        assert answer.status_code == 200


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_it_ends_at_once_though_pages_are_open(number: signal.Signals, base: Path) -> None:
    with serve(base) as started:
        with started.listening("/events") as line:
            started.signal(number)
            assert started.ended() == 0
            # Not cut off after a time: a page that only listens is let go, with a last word.
            assert b"".join(iter(lambda: line.recv(1 << 16), b"")).endswith(b"0\r\n\r\n")
        assert started.problems() == ""


def test_the_port_of_another_server_is_refused(served: Served, base: Path) -> None:
    ended = run("--base-dir", base, "serve", "--port", served.port)
    assert ended.code == 2
    assert f"port {served.port}" in ended.err
    assert "--port" in ended.err


def test_a_missing_base_folder_is_refused_and_not_made(tmp_path: Path) -> None:
    ended = run("--base-dir", tmp_path / "missing", "serve", "--port", "0")
    assert ended.code == 2
    assert str(tmp_path / "missing") in ended.err
    assert not (tmp_path / "missing").exists()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--host", "0.0.0.0"], "--tls-cert"),
        (["--host", "::"], "--tls-cert"),
        (["--tls-cert", "x"], "--tls-key"),
        (["--tls-cert", "missing", "--tls-key", "missing"], "missing"),
        (["--allow-host", "*"], "*"),
        (["--host", "203.0.113.1", "--unencrypted"], "203.0.113.1"),
        (["--port", "70000"], "70000"),
    ],
)
def test_what_would_be_unsafe_or_cannot_work_is_refused(arguments: list[str], words: str, base: Path) -> None:
    ended = run("--base-dir", base, "serve", "--port", "0", *arguments)
    assert ended.code == 2
    assert words in ended.err
    assert ended.out == ""


def test_without_the_packages_it_says_which_ones_to_install(base: Path, tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text("import sys\nsys.modules['uvicorn'] = None\n")
    command = [str(ORIHON), "--base-dir", str(base), "serve", "--port", "0"]
    variables = environment("en", PYTHONPATH=str(tmp_path))
    ended = subprocess.run(command, capture_output=True, text=True, env=variables, timeout=PATIENCE, check=False)
    assert ended.returncode == 2
    assert "orihon[web]" in ended.stderr


def test_open_shows_the_page_and_no_process_names_the_token(base: Path, tmp_path: Path) -> None:
    opened = tmp_path / "opened"
    program = tmp_path / "xdg-open"
    program.write_text(f'#!/bin/sh\ncp -p "$1" {opened}.part && mv {opened}.part {opened}\n')
    program.chmod(0o700)
    with serve(base, "--open", PATH=f"{tmp_path}{os.pathsep}{os.environ['PATH']}") as started:
        started.wait_for(opened.exists)
        assert f"{started.address}#token={started.token}" in opened.read_text()
        assert opened.stat().st_mode & 0o777 == 0o600
        assert (base / "open-page.html").exists()
    assert not (base / "open-page.html").exists()


def test_no_token_stays_behind_when_it_is_ended_before_it_has_begun(
    base: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("typer.launch", lambda path: 0)
    before = signal.getsignal(signal.SIGTERM)
    with open_server(base, load_settings({}, environ={}), port=0) as server:
        with pytest.raises(SystemExit, match="143"), shown_in_browser(server, base):
            assert server.token in (base / "open-page.html").read_text()
            signal.raise_signal(signal.SIGTERM)
        assert not (base / "open-page.html").exists()
    assert signal.getsignal(signal.SIGTERM) is before


def test_the_demo_shows_its_page_until_it_is_interrupted(tmp_path: Path) -> None:
    opened = tmp_path / "opened"
    program = tmp_path / "xdg-open"
    program.write_text(f'#!/bin/sh\ncp "$1" {opened}.part && mv {opened}.part {opened}\n')
    program.chmod(0o700)
    command = [str(ORIHON), "demo", "--phases", "--open", "--folder", str(tmp_path / "demo")]
    variables = environment("en", PATH=f"{tmp_path}{os.pathsep}{os.environ['PATH']}", NO_COLOR="1", COLUMNS="300")
    with Child(command, stdout=subprocess.PIPE, env=variables, text=True) as process:
        assert process.stdout is not None
        said = ""
        while "until Ctrl-C" not in said:
            line = process.stdout.readline()
            assert line, said
            said += line
        address, _, token = (found := re.search(r"http://\S+#token=\S+", said))[0].partition("#token=")  # type: ignore[index]
        shown = httpx.get(address, headers={"Authorization": f"Bearer {token}"}, timeout=PATIENCE).text
        eventually(opened.exists)  # whoever opens pages is not waited for
        assert found[0] in opened.read_text()  # type: ignore[index]
        process.send_signal(signal.SIGINT)
        assert process.wait(PATIENCE) == 0
    assert re.search(r'href="/tasks/[0-9a-f-]{36}"', shown)
    assert " serve --open" in said
    assert not (tmp_path / "demo" / "contexts" / "open-page.html").exists()
    assert run("demo", "--open", "--json").code == 2


def test_it_speaks_https(base: Path, tmp_path: Path) -> None:
    certificate, key = made_certificate(tmp_path)
    with serve(base, "--tls-cert", str(certificate), "--tls-key", str(key)) as started:
        assert started.address == f"https://127.0.0.1:{started.port}/"
        trusting = ssl.create_default_context(cafile=str(certificate))
        with httpx.Client(base_url=started.address, verify=trusting, timeout=PATIENCE) as client:
            assert client.get("/", headers=started.bearer).status_code == 200
            entered = client.post("/login", data={"token": started.token}, headers={"origin": started.address[:-1]})
            assert "Secure" in entered.headers["set-cookie"]
            assert client.get("/").status_code == 200
            assert client.get("/", headers={"origin": f"http://127.0.0.1:{started.port}"}).status_code == 403
        with socket.create_connection(("127.0.0.1", started.port), PATIENCE) as plain:
            plain.sendall(b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
            assert not plain.recv(100).startswith(b"HTTP")


def test_the_page_needs_nothing_heavy_until_it_is_served() -> None:
    said = "import sys, orihon.cli.serve; print(sorted({'starlette', 'uvicorn', 'jinja2', 'ssl'} & set(sys.modules)))"
    assert json.loads(subprocess.check_output([sys.executable, "-c", said], text=True)) == []


def made_certificate(folder: Path) -> tuple[Path, Path]:
    """A certificate for this machine that signs itself, and its key."""
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "127.0.0.1")])
    now = datetime.datetime.now(datetime.UTC)
    builder = x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
    builder = builder.not_valid_before(now - datetime.timedelta(1)).not_valid_after(now + datetime.timedelta(1))
    alternative = x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))])
    certificate = builder.add_extension(alternative, critical=False).sign(key, hashes.SHA256())
    files = folder / "certificate.pem", folder / "key.pem"
    files[0].write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    encryption = serialization.NoEncryption()
    files[1].write_bytes(key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, encryption))
    return files
