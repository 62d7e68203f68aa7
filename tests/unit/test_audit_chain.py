"""A chain of audit records: every single change to it is found, whatever the records say."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orihon.audit import AuditTrail
from orihon.audit.record import (
    AuditDraft,
    BrokenLine,
    Head,
    Person,
    head_of,
    link,
    name_with,
    new_name,
    person,
    read_line,
)
from tests.audits import AuditPlace

_TEXTS = st.text(max_size=40)
_JSON = st.dictionaries(st.text(max_size=8), st.one_of(st.none(), st.booleans(), st.integers(), _TEXTS), max_size=4)
_DRAFTS = st.builds(
    AuditDraft,
    time=_TEXTS,
    action=_TEXTS,
    task=_TEXTS,
    person=st.builds(Person, _TEXTS, _TEXTS),
    process=st.one_of(st.integers(0, 2**31), _TEXTS),
    host=_TEXTS,
    result=_TEXTS,
    details=_JSON,
)


@given(st.lists(_DRAFTS, min_size=1, max_size=6))
def test_whatever_is_recorded_is_linked_and_read_again(drafts: list[AuditDraft]) -> None:
    lines, head = link(drafts, Head("1-00000000"), lambda who: who.user)
    previous = Head("1-00000000")
    for draft, line in zip(drafts, lines, strict=True):
        assert line.count(b"\n") == 1
        fields = read_line(line[:-1])
        assert (fields["previous"], fields["number"]) == (previous.hash, previous.number + 1)
        assert (fields["action"], fields["task"], fields["who"]) == (draft.action, draft.task, draft.person.user)
        assert fields["details"] == draft.details
        previous = head_of(line[:-1])
    assert previous == head


@given(_DRAFTS, st.data())
def test_no_byte_of_a_line_can_be_another(draft: AuditDraft, data: st.DataObject) -> None:
    ((line,), _) = link([draft], Head("1-00000000"), lambda who: who.user)
    place = data.draw(st.integers(0, len(line) - 2))
    other = data.draw(st.integers(0, 255).filter(lambda byte: byte != line[place]))
    with pytest.raises(BrokenLine):
        read_line(line[:place] + bytes([other]) + line[place + 1 : -1])


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> AuditPlace:
    place = AuditPlace.made(tmp_path_factory.mktemp("audit"), None)
    place.record(6)
    assert place.verify().is_sound
    return place


@given(data=st.data())
def test_no_byte_of_a_chains_file_can_be_another(written: AuditPlace, data: st.DataObject) -> None:
    path = written.base / "audit" / f"{written.chain()}.jsonl"
    whole = path.read_bytes()
    place = data.draw(st.integers(0, len(whole) - 1))
    other = data.draw(st.integers(0, 255).filter(lambda byte: byte != whole[place]))
    try:
        path.write_bytes(whole[:place] + bytes([other]) + whole[place + 1 :])
        assert not written.verify().is_sound
    finally:
        path.write_bytes(whole)


@given(data=st.data())
def test_a_chains_file_cannot_be_shorter_anywhere(written: AuditPlace, data: st.DataObject) -> None:
    path = written.base / "audit" / f"{written.chain()}.jsonl"
    whole = path.read_bytes()
    start = data.draw(st.integers(0, len(whole) - 1))
    end = data.draw(st.integers(start + 1, len(whole)))
    try:
        path.write_bytes(whole[:start] + whole[end:])
        assert not written.verify().is_sound
    finally:
        path.write_bytes(whole)


def test_a_persons_name_says_nothing_and_is_another_each_time() -> None:
    ana = Person("ana", "192.0.2.7")
    names = [new_name(ana) for _ in range(3)]
    assert len({name for name, _ in names}) == 3
    assert all(re.fullmatch(r"[0-9a-f]{32}", name) and name_with(ana, salt) == name for name, salt in names)
    assert name_with(Person("bob", "192.0.2.7"), names[0][1]) != names[0][0]


def test_names_of_persons_fit_every_sink() -> None:
    assert person("a\0b\ud800" + "x" * 1000) == Person("a\\0b\\ud800" + "x" * 252)
    assert person("", None) == Person("", "")


@pytest.mark.parametrize(
    "spoil",
    [
        pytest.param(lambda file: file.write_bytes(b"{}\n"), id="no record"),
        pytest.param(lambda file: file.write_bytes(file.read_bytes().replace(b'"compress"', b'"Compress"')), id="edit"),
    ],
)
def test_a_chain_that_ends_in_nonsense_is_left_for_a_person_to_see(
    tmp_path: Path, spoil: Callable[[Path], object]
) -> None:
    place = AuditPlace.made(tmp_path, None)
    place.record(2)
    first = place.chain()
    spoil(tmp_path / "audit" / f"{first}.jsonl")
    spoiled = (tmp_path / "audit" / f"{first}.jsonl").read_bytes()
    AuditTrail(tmp_path, place.settings).record("undo", "task-1")  # as another process
    assert (tmp_path / "audit" / f"{first}.jsonl").read_bytes() == spoiled
    assert [head.number for head in place.verify().heads if head.chain != first] == [1]
    assert not place.verify().is_sound
