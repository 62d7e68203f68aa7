"""A program as ``orihon wrap`` runs them: does what its arguments say, one after the other. Needs nothing of ours.

``ask TEXT`` sends the conversation so far and prints the answer; it tries again where nobody listens, as clients do.
``env NAME`` prints a variable. ``read`` prints a line of the input. ``signals N`` waits for so many and prints them.
``exit N`` and ``die N`` end it.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
import urllib.error
import urllib.request

_PATIENCE = 120.0
messages: list[dict[str, str]] = []
caught: list[int] = []


def say(*said: object) -> None:
    sys.stdout.write(" ".join(map(str, said)) + "\n")
    sys.stdout.flush()


def ask(said: str) -> str:
    messages.append({"role": "user", "content": said})
    address = os.environ["OPENAI_BASE_URL"] + "/chat/completions"
    body = json.dumps({"model": "scripted", "messages": messages}).encode()
    headers = {"Content-Type": "application/json", "Authorization": "Bearer sk-test-of-a-wrap"}
    give_up = time.monotonic() + _PATIENCE
    while True:
        request = urllib.request.Request(address, body, headers)
        try:
            with urllib.request.urlopen(request, timeout=_PATIENCE) as answer:
                found = json.load(answer)["choices"][0]["message"]
        except (ConnectionError, urllib.error.URLError) as error:
            if isinstance(error, urllib.error.HTTPError) or time.monotonic() > give_up:
                raise
            time.sleep(0.1)
            continue
        messages.append({"role": "assistant", "content": found["content"]})
        return str(found["content"])


def main(words: list[str]) -> None:
    steps = iter(words)
    for step in steps:
        match step:
            case "ask":
                say(ask(next(steps)))
            case "env":
                say(os.environ.get(next(steps), "-"))
            case "pid":
                say(os.getpid())
            case "read":
                say(sys.stdin.readline().strip())
            case "signals":
                count = int(next(steps))
                for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGWINCH, signal.SIGUSR1):
                    signal.signal(number, lambda got, _: caught.append(got))
                say("ready")
                give_up = time.monotonic() + _PATIENCE
                while len(caught) < count and time.monotonic() < give_up:
                    time.sleep(0.02)
                time.sleep(0.3)  # whether one comes twice
                say(*caught)
            case "exit":
                sys.exit(int(next(steps)))
            case "die":
                ending = int(next(steps))
                signal.signal(ending, signal.SIG_DFL)
                os.kill(os.getpid(), ending)


main(sys.argv[1:])
