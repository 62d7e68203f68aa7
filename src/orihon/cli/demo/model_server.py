"""``python -m orihon.cli.demo.model_server MODEL WINDOW``: serves a small model on loopback until its input ends.

The first line that it writes is its address. A process of its own: the server's threads and its log stay out of ours.
Needs the ``xllamacpp`` package.
"""

from __future__ import annotations

import sys

import xllamacpp


def main(model: str, window: int) -> None:
    """Serve until the input ends."""
    params = xllamacpp.CommonParams()
    params.model.path = model
    params.n_ctx = window
    params.n_parallel = 1
    params.cpuparams.n_threads = 1  # more of them wait for each other when the machine is busy
    params.cpuparams_batch.n_threads = 1
    params.hostnames = ["127.0.0.1"]
    params.port = 0
    server = xllamacpp.Server(params)
    sys.stdout.write(f"{server.listening_address}\n")
    sys.stdout.flush()
    sys.stdin.read()


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
