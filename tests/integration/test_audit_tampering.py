"""What somebody may do to the audit, record by record, in files and in tables; and what of it is found."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from orihon.audit import AuditTrail, audit_records, forget_person, remove_old_records
from orihon.audit.record import AuditDraft, Head, Person, link, read_line
from tests.audits import SINKS, AuditPlace
from tests.services import Database

COUNT = 5
Lines = list[bytes]


@pytest.fixture(params=SINKS)
def place(request: pytest.FixtureRequest, tmp_path: Path) -> AuditPlace:
    database: Database | None = request.getfixturevalue("emptied_postgres") if request.param == "postgres" else None
    return AuditPlace.made(tmp_path / "base", database)


def edited(lines: Lines, index: int) -> Lines:
    return [*lines[:index], lines[index].replace(b'"result":"ok"', b'"result":"no"'), *lines[index + 1 :]]


def edited_with_its_hash(lines: Lines, index: int) -> Lines:
    body = lines[index].replace(b'"result":"ok"', b'"result":"no"')[: -len(b',"hash":"') - 66] + b"}"
    forged = body[:-1] + b',"hash":"' + hashlib.sha256(body).hexdigest().encode() + b'"}'
    assert read_line(forged)["result"] == "no"
    return [*lines[:index], forged, *lines[index + 1 :]]


def deleted(lines: Lines, index: int) -> Lines:
    return lines[:index] + lines[index + 1 :]


def exchanged(lines: Lines, index: int) -> Lines:
    other = (index + 1) % len(lines)
    swapped = list(lines)
    swapped[index], swapped[other] = lines[other], lines[index]
    return swapped


def doubled(lines: Lines, index: int) -> Lines:
    return [*lines[: index + 1], lines[index], *lines[index + 1 :]]


def head_cut(lines: Lines, index: int) -> Lines:
    return lines[index + 1 :]


def tail_cut(lines: Lines, index: int) -> Lines:
    return lines[:index]


def middle_cut(lines: Lines, index: int) -> Lines:
    return lines[:index] + lines[index + 2 :]


def line_cut(lines: Lines, index: int) -> Lines:
    return [*lines[:index], lines[index][: len(lines[index]) // 2], *lines[index + 1 :]]


def emptied(lines: Lines, index: int) -> Lines:
    return [*lines[:index], b"{}", *lines[index + 1 :]]


@pytest.mark.parametrize(
    "tamper",
    [
        *(edited, edited_with_its_hash, deleted, exchanged, doubled),
        *(head_cut, tail_cut, middle_cut, line_cut, emptied),
    ],
)
def test_each_kind_of_tampering_with_each_record_is_found(
    place: AuditPlace, tamper: Callable[[Lines, int], Lines]
) -> None:
    place.record(COUNT - 1)  # and one before them, about the settings
    lines = place.lines()
    assert len(lines) == COUNT
    assert place.verify().is_sound
    for index in range(COUNT):
        changed = tamper(lines, index)
        assert changed != lines
        place.put(changed)
        assert not place.verify().is_sound, f"record {index + 1}"
    place.put(lines)
    assert place.verify().is_sound


def test_a_record_of_another_chain_does_not_fit(place: AuditPlace) -> None:
    place.record(COUNT)
    other, _ = link(_drafts(COUNT), Head("2-00000000"), lambda _: "x" * 32)
    lines = place.lines()
    for index in range(COUNT):
        place.put([*lines[:index], other[index][:-1], *lines[index + 1 :]])
        assert "changed" in place.kinds()


def test_a_chain_that_was_written_anew_is_found_by_its_anchors(place: AuditPlace, tmp_path: Path) -> None:
    file = tmp_path / "elsewhere" / "anchors.jsonl"
    place.settings = place.settings.replace(**{"audit.anchor_file": str(file), "audit.anchor_every": 1})
    place.record(COUNT)
    assert file.read_bytes().count(b"\n") == COUNT
    assert place.verify().anchors == COUNT
    assert place.verify().is_sound
    lines, name = place.lines(), place.chain()
    for index in range(len(lines)):
        start = Head(name, index, read_line(lines[index])["previous"])
        forged, _ = link(_drafts(len(lines))[index:], start, lambda _: read_line(lines[0])["who"])
        place.put([*lines[:index], *(line[:-1] for line in forged)])
        place.fit_head()
        assert place.kinds([]) == set(), "it fits as well as the true one"
        assert place.kinds() == {"rewritten"}, f"from record {index + 1}"


def test_a_cut_tail_is_found_up_to_the_last_anchor(place: AuditPlace, tmp_path: Path) -> None:
    place.record(COUNT - 1)
    lines, file = place.lines(), tmp_path / "anchors.jsonl"
    fields = read_line(lines[2])
    file.write_text(f'{{"chain": "{fields["chain"]}", "number": 3, "hash": "{fields["hash"]}"}}\n', encoding="utf-8")
    found = {}
    for left in range(1, COUNT):
        place.put(lines[:left])
        place.fit_head()
        found[left] = place.kinds([file])
    assert found == {1: {"cut"}, 2: {"cut"}, 3: set(), 4: set()}


def test_a_chain_that_is_gone_is_missed(place: AuditPlace, tmp_path: Path) -> None:
    file = tmp_path / "anchors.jsonl"
    file.write_text(f'{{"chain": "7-00000000", "number": 3, "hash": "{"0" * 64}"}}\n', encoding="utf-8")
    place.record(1)
    assert place.kinds([file]) == {"missing_chain"}


@pytest.mark.parametrize("index", [0, 1])
def test_a_chain_that_is_gone_with_its_head_is_missed_without_an_anchor(place: AuditPlace, index: int) -> None:
    """The newest one, too, also when a later one has taken its number."""
    place.record(2)
    _second_chain(place)
    assert place.verify().is_sound
    gone = place.chain(index)
    place.remove_chain(gone)
    missed = [finding for finding in place.verify().findings if finding.kind == "missing_chain"]
    assert gone in {finding.chain for finding in missed}
    _second_chain(place)
    assert gone in {finding.chain for finding in place.verify().findings if finding.kind == "missing_chain"}


def test_an_audit_that_is_gone_as_a_whole_is_missed(place: AuditPlace) -> None:
    place.record(2)
    place.remove_chain()
    report = place.verify()
    assert (report.chains, [finding.kind for finding in report.findings]) == (0, ["missing_chain"])


def _second_chain(place: AuditPlace) -> None:
    """A writer that comes while others have all chains begins one of its own."""
    before = place.trail.sink.chains()
    with place.chains_in_use():
        AuditTrail(place.base, place.settings).record("undo", "task-2")
    assert len(place.trail.sink.chains()) == len(before) + 1


def _drafts(count: int) -> list[AuditDraft]:
    """Something else than what was recorded."""
    times = [f"2026-11-15T00:00:0{number}.000000+00:00" for number in range(count)]
    return [AuditDraft(time, "read", "task-9", Person("eve"), 1, "host") for time in times]


# ---- persons -------------------------------------------------------------------------------------------------------


def test_removed_files_of_chains_are_missed_without_an_anchor(tmp_path: Path) -> None:
    place = AuditPlace.made(tmp_path / "base", None)
    place.record(COUNT)
    for file in (tmp_path / "base" / "audit").glob("*.jsonl"):
        file.unlink()
    assert place.kinds() == {"cut"}
    place.record(1)  # whoever writes next begins another chain, and what is gone is missed still
    assert "cut" in place.kinds()


def test_a_person_who_is_forgotten_leaves_no_name_and_a_sound_chain(place: AuditPlace) -> None:
    place.record(2)
    place.trail.record("approve", "task-1", user="Zoë Canary")
    assert b"Zo" in place.everything()
    assert [one.user for one in audit_records(place.base, place.settings)] == ["ana", "ana", "ana", "Zoë Canary"]
    assert forget_person(place.base, place.settings, "Zoë Canary") == 1
    assert forget_person(place.base, place.settings, "Zoë Canary") == 0
    assert b"Canary" not in place.everything()
    users = [(one.action, one.user) for one in audit_records(place.base, place.settings)][1:]
    assert users == [("compress", "ana"), ("compress", "ana"), ("approve", None), ("forget", "ana")]
    report = place.verify()
    assert report.is_sound
    assert report.forgotten == 1
    place.trail.record("approve", "task-1", user="Zoë Canary")
    names = [one.who for one in audit_records(place.base, place.settings) if one.action == "approve"]
    assert len(set(names)) == 2, "who comes back is somebody new"
    assert place.verify().is_sound


def test_a_person_cannot_be_exchanged_or_taken_away(place: AuditPlace) -> None:
    place.record(2)
    place.change_people(lambda _: "eve")
    assert place.kinds() == {"person_changed"}
    place.change_people(lambda _: None)
    assert place.kinds() == {"person_missing"}


@pytest.mark.parametrize(
    "written", ['{"%s": 7}', '{"%s": {"user": "eve"}}', '{"%s": {"user": 1, "salt": 2}}', "[]", "7"]
)
def test_a_table_of_persons_that_is_none_is_found_and_stops_nobody(tmp_path: Path, written: str) -> None:
    place = AuditPlace.made(tmp_path / "contexts", None)
    place.record(2)
    table = place.base / "audit" / "people.json"
    (name,) = json.loads(table.read_bytes())
    table.write_text(written.replace("%s", name), encoding="utf-8")
    (place.base / "audit" / "settings.json").write_text("[1]", encoding="utf-8")
    assert place.kinds() == {"person_missing"}
    AuditTrail(place.base, place.settings).record("undo", "task-1")  # as another process
    assert place.kinds() == {"person_missing"}


# ---- what is old -----------------------------------------------------------------------------------------------------


def test_old_records_go_on_the_record_and_no_others(place: AuditPlace) -> None:
    place.record(COUNT - 1)
    settings = place.settings.replace(**{"audit.keep_days": 1})
    assert remove_old_records(place.base, settings) == 0
    assert remove_old_records(place.base, place.settings) == 0, "for ever, unless told"
    later = datetime.now(UTC) + timedelta(days=2)
    assert remove_old_records(place.base, settings, now=later) == COUNT - 1
    left = [read_line(line) for line in place.lines()]
    assert [(one["number"], one["action"]) for one in left] == [(COUNT, "compress"), (COUNT + 1, "prune")]
    assert place.verify().is_sound
    assert remove_old_records(place.base, settings, now=later + timedelta(days=9)) == 1
    assert place.verify().is_sound
    place.put(place.lines()[1:])
    assert place.kinds() == {"head_cut"}


def test_records_that_somebody_removes_on_the_record_before_their_time_are_found_by_their_anchors(
    place: AuditPlace, tmp_path: Path
) -> None:
    """Whoever may write to the store can write a ``prune``, too."""
    file = tmp_path / "elsewhere" / "anchors.jsonl"
    place.settings = place.settings.replace(**{"audit.anchor_file": str(file), "audit.anchor_every": 1})
    place.record(COUNT)
    lines, name = place.lines(), place.chain()
    first, last = read_line(lines[3]), read_line(lines[-1])
    told = {"chain": name, "first": 4, "previous": first["previous"]}
    draft = replace(_drafts(1)[0], time="2126-11-15T00:00:00.000000+00:00", action="prune", task="", details=told)
    forged, _ = link([draft], Head(name, last["number"], last["hash"]), lambda _: last["who"])
    place.put([*lines[3:], forged[0][:-1]])
    assert place.kinds() == {"removed_young"}
    assert place.kinds([]) == set(), "without anchors nobody can tell, but how many went is said"
    assert place.verify().removed == 3
    place.settings = place.settings.replace(**{"audit.keep_days": 30})
    assert place.kinds() == {"removed_young"}
    old = (datetime.now(UTC) - timedelta(days=31)).isoformat(timespec="microseconds")
    kept = [json.loads(line) | {"time": old} for line in file.read_bytes().splitlines()]
    file.write_text("".join(f"{json.dumps(line)}\n" for line in kept), encoding="utf-8")
    assert place.kinds() == set(), "it was old enough"
