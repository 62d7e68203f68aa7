"""A real S3 server on loopback (moto's) for tests: one for a module, a bucket of its own for each test."""

from __future__ import annotations

import os
import secrets
import socket
import subprocess
import sys
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, cast

import boto3  # type: ignore[import-untyped]
from moto.server import ThreadedMotoServer

from tests.integration.run_supervisor import eventually
from tests.ports import free_port

#: What the provider's usual environment variables say in these tests.
CREDENTIALS = {"AWS_ACCESS_KEY_ID": "testing", "AWS_SECRET_ACCESS_KEY": "testing-secret", "AWS_REGION": "us-east-1"}


@dataclass(frozen=True, slots=True)
class Bucket:
    """A bucket that nobody else uses."""

    endpoint: str
    name: str

    @property
    def url(self) -> str:
        return f"s3://{self.name}/some/prefix"

    @property
    def archive(self) -> dict[str, Any]:
        """The section ``archive`` of the settings."""
        return {"url": self.url, "endpoint": self.endpoint}

    def client(self) -> Any:
        return boto3.client(
            "s3",
            endpoint_url=self.endpoint,
            region_name="us-east-1",
            aws_access_key_id=CREDENTIALS["AWS_ACCESS_KEY_ID"],
            aws_secret_access_key=CREDENTIALS["AWS_SECRET_ACCESS_KEY"],
        )

    def keys(self) -> list[str]:
        """Every object, below the prefix."""
        found = self.client().list_objects_v2(Bucket=self.name).get("Contents", [])
        return [one["Key"].removeprefix("some/prefix/") for one in found]

    def uploads(self) -> int:
        """Uploads in parts that were begun and never ended."""
        return len(self.client().list_multipart_uploads(Bucket=self.name).get("Uploads", []))


class _OneWriterAtATime:
    """Moto looks at the condition of a write, and then writes; a real storage does both in one step."""

    def __init__(self, app: Any) -> None:
        self._app = app
        self._turn = threading.Lock()

    def __call__(self, environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
        if not {"HTTP_IF_MATCH", "HTTP_IF_NONE_MATCH"} & environ.keys():
            return cast(Iterable[bytes], self._app(environ, start_response))
        with self._turn:
            return list(self._app(environ, start_response))


@contextmanager
def object_server() -> Iterator[str]:
    """The address of a server that runs while the block lasts."""
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    assert server._server is not None
    server._server.app = _OneWriterAtATime(server._server.app)
    try:
        host, port = server.get_host_and_port()
        yield f"http://{host}:{port}"
    finally:
        server.stop()


@contextmanager
def strict_object_server() -> Iterator[str]:
    """A server, in a process of its own, that asks who it is after one request."""
    port = free_port()
    command = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)]
    environment = {**os.environ, "INITIAL_NO_AUTH_ACTION_COUNT": "1"}
    server = subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        eventually(lambda: _answers(port))
        yield f"http://127.0.0.1:{port}"
    finally:
        server.kill()
        server.wait(60)


def _answers(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), timeout=1).close()
    except OSError:
        return False
    return True


def new_bucket(endpoint: str) -> Bucket:
    bucket = Bucket(endpoint, f"orihon-test-{secrets.token_hex(6)}")
    bucket.client().create_bucket(Bucket=bucket.name)
    return bucket
