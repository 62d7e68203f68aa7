"""An MCP server of the 2025-11-25 revision without any library, so that it can misbehave: one fault per tool.

python mcp_raw_server.py [--describe TEXT] [--more-tools] [--many N] [--starts FILE]
                         [--silent] [--crash] [--list-fails] [--list-hangs] [--stubborn FILE]
                         [--title TEXT] [--instruct TEXT] [--hint NAME] [--schema JSON]

Options are also taken from RAW_OPTIONS: with those it is the same server that speaks otherwise.
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

TEXT = {"type": "object", "properties": {"text": {"type": "string"}}}

MIXED = [
    {"type": "resource", "resource": {"uri": "file:///a.txt", "text": "text of a resource"}},
    {"type": "resource", "resource": {"uri": "file:///b.bin", "blob": "aGVsbG8=", "mimeType": "application/zip"}},
    {"type": "resource_link", "uri": "file:///c.pdf", "name": "c", "mimeType": "application/pdf"},
    {"type": "audio", "data": "aGVsbG8=", "mimeType": "audio/wav"},
]


def send(message: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}).replace('"1e999"', "1e999") + "\n")
    sys.stdout.flush()


def answer(number: object, text: str, *, is_error: bool = False) -> None:
    send({"id": number, "result": {"content": [{"type": "text", "text": text}], "isError": is_error}})


class Server:
    def __init__(self, options: argparse.Namespace) -> None:
        self.options = options
        self.description = options.describe

    def tools(self) -> list[dict[str, Any]]:
        names = ["echo", "die", "hang", "stop", "rubbish", "prefixed", "much_rubbish", "endless", "long", "env"]
        names += ["child", "key", "refuse", "change", "image", "dotted.name", "shout", "chatter", "mixed", "plain"]
        names += ["added"] * self.options.more_tools + [f"tool{n}" for n in range(self.options.many)]
        return [
            {"name": name, "description": self.description, "inputSchema": {**TEXT, **self.options.schema}}
            | (
                {"annotations": {"readOnlyHint": True, **dict.fromkeys(self.options.hint, True)}}
                if name == "echo"
                else {}
            )
            | ({"title": self.options.title} if self.options.title else {})
            for name in names
        ]

    def handle(self, method: str, number: object, params: dict[str, Any]) -> None:
        if method == "initialize":
            info = {"name": "raw", "version": "1"}
            result = {"protocolVersion": "2025-11-25", "capabilities": {"tools": {"listChanged": True}}}
            send({"id": number, "result": {**result, "serverInfo": info, "instructions": self.options.instruct}})
        elif method == "tools/list":
            if self.options.list_hangs:
                time.sleep(600)
            if self.options.list_fails:
                send({"id": number, "error": {"code": -32603, "message": "the list is lost"}})
                return
            send({"id": number, "result": {"tools": self.tools()}})
        elif method == "tools/call":
            self.call(number, params)
        elif number is not None:
            send({"id": number, "error": {"code": -32601, "message": f"no method {method}"}})

    def call(self, number: object, params: dict[str, Any]) -> None:
        given = params.get("arguments") or {}
        match params["name"]:
            case "echo" | "dotted.name":
                answer(number, str(given.get("text")))
            case "die":
                sys.stderr.write("the disk is on fire\n")
                sys.stderr.flush()
                os._exit(3)
            case "hang":
                subprocess.Popen(["sleep", "600"], stdout=subprocess.DEVNULL)
                time.sleep(600)
            case "stop":
                os.kill(os.getpid(), signal.SIGSTOP)
            case "rubbish":
                sys.stdout.write("starting up...\n{}\n[1, 2]\n\xff\x00\n")
                answer(number, "after the rubbish")
            case "prefixed":
                sys.stdout.write("no line end: ")
                answer(number, "found")
            case "much_rubbish":
                while True:
                    sys.stdout.write("x" * 1000 + "\n")
            case "endless":
                while True:
                    sys.stdout.write("x" * 65536)
            case "long":
                answer(number, "\n".join(f"line {n}" for n in range(1, int(given["text"]) + 1)))
            case "env":
                answer(number, json.dumps(dict(os.environ)))
            case "child":
                child = subprocess.Popen(["sleep", "600"])
                answer(number, str(child.pid))
            case "key":
                answer(number, json.dumps(params.get("_meta")))
            case "refuse":
                send({"id": number, "error": {"code": -32602, "message": "text is not to my taste"}})
            case "change":
                self.description = "changed while running"
                send({"method": "notifications/tools/list_changed"})
                answer(number, "changed")
            case "shout":
                sys.stderr.write("x" * 5_000_000)
                answer(number, "heard")
            case "chatter":
                for at in range(2000):
                    send({"method": "notifications/message", "params": {"level": "info", "data": f"step {at}"}})
                answer(number, "done talking")
            case "mixed":
                send({"id": number, "result": {"content": MIXED}})
            case "plain":
                send({"id": number, "result": {"content": [], "structuredContent": {"answer": 42}}})
            case "image":
                image = {"type": "image", "data": "aGVsbG8=", "mimeType": "image/png"}
                send({"id": number, "result": {"content": [{"type": "text", "text": "a picture"}, image]}})


def refuse_to_end(pids: Path) -> None:
    """Nothing but SIGKILL ends this server and its child, which has a session of its own; both are named in a file."""
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)  # the child inherits it
    child = subprocess.Popen(["sleep", "600"], stdout=subprocess.DEVNULL, start_new_session=True)
    with pids.open("a") as file:
        file.write(f"{os.getpid()} {child.pid}\n")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--describe", default="does what its name says")
    parser.add_argument("--more-tools", action="store_true")
    parser.add_argument("--starts", type=Path)
    parser.add_argument("--many", type=int, default=0)
    parser.add_argument("--list-fails", action="store_true")
    parser.add_argument("--list-hangs", action="store_true")
    parser.add_argument("--silent", action="store_true")
    parser.add_argument("--crash", action="store_true")
    parser.add_argument("--stubborn", type=Path)
    parser.add_argument("--title", default="")
    parser.add_argument("--schema", type=json.loads, default={})
    parser.add_argument("--instruct", default="")
    parser.add_argument("--hint", action="append", default=[])
    options = parser.parse_args([*sys.argv[1:], *shlex.split(os.environ.get("RAW_OPTIONS", ""))])
    sys.stdout.reconfigure(encoding="latin-1", errors="replace")  # type: ignore[union-attr]
    if options.starts:
        with options.starts.open("a") as file:
            file.write(f"{os.getpid()}\n")
    if options.stubborn:
        refuse_to_end(options.stubborn)
    if options.crash:
        sys.exit("no such database")
    if options.silent:
        time.sleep(600)
    server = Server(options)
    for line in sys.stdin:
        message = json.loads(line)
        server.handle(message["method"], message.get("id"), message.get("params") or {})
    while options.stubborn:
        time.sleep(600)


if __name__ == "__main__":
    main()
