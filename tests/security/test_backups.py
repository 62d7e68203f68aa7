"""M6: whoever can write to the storage of backups cannot put one there that is taken for the base's own.

Each attack goes through the real command. The storage is a folder; what is done to it is done to files.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from orihon.settings import load_settings
from orihon.system import jsonio
from orihon.tasks.base import OpenBase
from orihon.tasks.grants import new_grant
from orihon.transfer.backup import VaultKey, backup, check_backups, list_backups
from orihon.transfer.backup.manifest import Chunk, FileEntry, ManifestWriter, read_manifest
from orihon.transfer.backup.snapshot import seen
from orihon.transfer.backup.vault import Memory
from tests.acceptance.test_cli import Ended, run
from tests.damage import BACKENDS, paused_task

STORED = Path(__file__).parents[1] / "stored" / "backup-v1" / "vault"
SETTINGS = load_settings({}, environ={})


@pytest.fixture
def base(tmp_path: Path) -> Path:
    return tmp_path / "base"


@pytest.fixture
def vault(tmp_path: Path) -> Path:
    return tmp_path / "vault"


def made(base: Path, vault: Path, times: int = 1) -> list[str]:
    """So many backups of a base, which is made when it is not there."""
    if not base.exists():
        paused_task(base, "files")
    return [backup(OpenBase(base, SETTINGS), vault).run for _ in range(times)]


def evil_run(tmp_path: Path, vault: Path, number: str = "000900") -> str:
    """A run of somebody else's base, with an admin's token in it, put beside those that are there."""
    evil, other = tmp_path / "evil", tmp_path / "evil-vault"
    paused_task(evil, "files")
    new_grant(OpenBase(evil, SETTINGS), user="evil", role="admin")
    run = backup(OpenBase(evil, SETTINGS), other).run
    name = f"{number}-{run.partition('-')[2]}"
    for path in (other / "pieces").rglob("*"):
        if path.is_file():
            place = vault / path.relative_to(other)
            place.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(path, place)
    shutil.copy(other / "manifests" / run, vault / "manifests" / name)
    described = jsonio.decode((other / "runs" / f"{run}.json").read_bytes())
    (vault / "runs" / f"{name}.json").write_bytes(jsonio.encode({**described, "run": name}))
    return name


def restored_to(base: Path, vault: Path, folder: Path, *options: object) -> Ended:
    return run("--base-dir", base, "backup", vault, "--restore-to", folder, *options)


def damage_in(base: Path, vault: Path) -> list[tuple[str, str]]:
    found = run("--base-dir", base, "backup", vault, "--check", "--json")
    told = json.loads(found.out)
    assert found.code == int(bool(told["damage"]))
    return [(error["reason"], str(error.get("run", ""))) for error in told["damage"]]


# ---- a run of somebody else ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("is_signed", [True, False])
def test_m6_a_run_of_somebody_else_is_found_and_never_restored(
    base: Path, vault: Path, tmp_path: Path, is_signed: bool
) -> None:
    (ours,) = made(base, vault)
    theirs = evil_run(tmp_path, vault)
    if not is_signed:  # as the version before wrote it
        path = vault / "runs" / f"{theirs}.json"
        described = jsonio.decode(path.read_bytes())
        path.write_bytes(jsonio.encode({**described, "mac": "", "vault": ""}))
    assert damage_in(base, vault) == [("backup_foreign", theirs)]
    assert [info.standing for info in list_backups(vault, SETTINGS, key=VaultKey.of_base(base))] == [
        "verified",
        "foreign",
    ]
    done = restored_to(base, vault, tmp_path / "copy")
    assert done.code == 0
    assert f"Trusted: run {ours} of " in done.out
    assert f"Passed over, because the key has not signed them: {theirs}." in done.err
    assert "evil" not in run("--base-dir", tmp_path / "copy", "grants", "list").out
    named = restored_to(base, vault, tmp_path / "again", "--run", theirs)
    assert named.code == 2
    assert "was not made with the key of this vault" in named.err
    assert not (tmp_path / "again").exists()


def test_m6_a_run_of_somebody_else_does_not_push_ours_out_nor_come_into_a_new_one(
    base: Path, vault: Path, tmp_path: Path
) -> None:
    runs = made(base, vault, 2)
    theirs = evil_run(tmp_path, vault)
    refused = run("--base-dir", base, "backup", vault, "--keep", 1)
    assert refused.code == 2
    assert theirs in refused.err
    assert [info.run for info in list_backups(vault, SETTINGS)] == [*runs, theirs]
    for name in (f"runs/{theirs}.json", f"manifests/{theirs}"):
        (vault / name).unlink()
    assert run("--base-dir", base, "backup", vault, "--keep", 1).code == 0
    assert damage_in(base, vault) == []


def test_m6_what_is_no_description_is_in_nobodys_way(base: Path, vault: Path, tmp_path: Path) -> None:
    (ours,) = made(base, vault)
    (vault / "runs" / "000900-20990101T000000Z.json").write_bytes(b"{")
    assert [reason for reason, _ in damage_in(base, vault)] == ["backup_manifest"]
    assert f"Backup {ours} is restored" in restored_to(base, vault, tmp_path / "copy").out


def test_m6_a_run_of_another_vault_of_the_same_base_is_not_of_this_one(base: Path, vault: Path, tmp_path: Path) -> None:
    made(base, vault)
    made(base, tmp_path / "second", 3)
    moved = sorted(path.name for path in (tmp_path / "second" / "manifests").iterdir())[-1]
    for name in (f"runs/{moved}.json", f"manifests/{moved}"):
        shutil.copy(tmp_path / "second" / name, vault / name)
    assert ("backup_foreign", moved) in damage_in(base, vault)


# ---- two bases -----------------------------------------------------------------------------------------------------


def test_m6_two_bases_in_one_target_are_refused(base: Path, vault: Path, tmp_path: Path) -> None:
    runs = made(base, vault)
    paused_task(tmp_path / "other", "files")
    refused = run("--base-dir", tmp_path / "other", "backup", vault)
    assert refused.code == 2
    assert "another base folder's" in refused.err
    assert not (tmp_path / "other" / "backup.key").exists()
    assert [info.run for info in list_backups(vault, SETTINGS)] == runs


def test_m6_a_vault_from_before_keys_is_not_taken_by_another_base(base: Path, vault: Path) -> None:
    shutil.copytree(STORED, vault)
    paused_task(base, "files")
    refused = run("--base-dir", base, "backup", vault)
    assert refused.code == 2
    assert "another base folder's" in refused.err
    assert not (vault / "vault.json").exists()


def test_m6_two_copies_of_a_base_are_told_apart(base: Path, vault: Path, tmp_path: Path) -> None:
    made(base, vault)
    shutil.copytree(base, tmp_path / "copy")
    (newer,) = made(tmp_path / "copy", vault)
    refused = run("--base-dir", base, "backup", vault)
    assert refused.code == 2
    assert newer in refused.err
    key = tmp_path / "key"
    key.write_text(run("--base-dir", base, "backup", vault, "--show-key").out)
    assert run("--base-dir", base, "backup", vault, "--key-file", key).code == 0
    assert run("--base-dir", tmp_path / "copy", "backup", vault).code == 2
    assert damage_in(base, vault) == []


# ---- what was there is changed, or gone ------------------------------------------------------------------------------


def cut(vault: Path, run: str) -> None:
    (vault / "runs" / f"{run}.json").unlink()
    (vault / "manifests" / run).unlink()


def change_time(vault: Path, run: str) -> None:
    path = vault / "runs" / f"{run}.json"
    path.write_bytes(jsonio.encode({**jsonio.decode(path.read_bytes()), "created_at": "2030-01-01T00:00:00+00:00"}))


def truncate_manifest(vault: Path, run: str) -> None:
    path = vault / "manifests" / run
    path.write_bytes(path.read_bytes()[:-20])


def exchange_manifests(vault: Path, run: str) -> None:
    other = next(path for path in sorted((vault / "manifests").iterdir()) if path.name != run)
    shutil.copy(other, vault / "manifests" / run)


@pytest.mark.parametrize(
    ("attack", "reason"),
    [
        (cut, "backup_missing"),
        (change_time, "backup_foreign"),
        (truncate_manifest, "backup_manifest"),
        (exchange_manifests, "backup_manifest"),
    ],
)
@pytest.mark.parametrize("which", [0, 1, 2])
def test_m6_what_is_done_to_a_run_is_named(
    base: Path, vault: Path, attack: Callable[[Path, str], None], reason: str, which: int
) -> None:
    """``which``: the first, the middle and the newest one."""
    attacked = made(base, vault, 3)[which]
    attack(vault, attacked)
    assert damage_in(base, vault) == [(reason, attacked)]


def test_m6_an_older_state_as_a_whole_is_missed_by_the_base(base: Path, vault: Path, tmp_path: Path) -> None:
    """Only the base, or whoever has noted the name of the last run, can know: the key alone does not."""
    made(base, vault)
    shutil.copytree(vault, tmp_path / "former")
    last = made(base, vault, 2)[-1]
    shutil.rmtree(vault)
    shutil.copytree(tmp_path / "former", vault)
    assert damage_in(base, vault) == [("backup_missing", last)]
    assert check_backups(vault, SETTINGS, key=VaultKey.of_base(base)).damage == ()
    told = run("--base-dir", base, "backup", vault)
    assert (told.code, f"Warning: {last}" in told.err) == (0, True)
    assert damage_in(base, vault) == [("backup_missing", last)], "the next one does not hide it"


def test_m6_a_vault_that_is_gone_is_missed(base: Path, vault: Path) -> None:
    (last,) = made(base, vault)
    shutil.rmtree(vault)
    told = run("--base-dir", base, "backup", vault)
    assert (told.code, f"Warning: {last}" in told.err) == (0, True)
    assert damage_in(base, vault) == []


@pytest.mark.parametrize("attack", ["gone", "forged", "nonsense"])
def test_m6_the_description_of_the_vault_is_proved(base: Path, vault: Path, tmp_path: Path, attack: str) -> None:
    made(base, vault, 2)
    path = vault / "vault.json"
    if attack == "gone":
        path.unlink()
    else:
        described = jsonio.decode(path.read_bytes())
        path.write_bytes(jsonio.encode({**described, "oldest": "000009"}) if attack == "forged" else b"[]")
    assert [reason[:12] for reason, _ in damage_in(base, vault)][:1] == ["backup_vault"]
    assert run("--base-dir", base, "backup", vault).code == 2
    assert restored_to(base, vault, tmp_path / "copy").code == 2
    assert restored_to(base, vault, tmp_path / "copy", "--unverified").code == 0


def test_m6_older_runs_that_were_removed_by_keep_are_not_missed(base: Path, vault: Path) -> None:
    made(base, vault, 3)
    assert run("--base-dir", base, "backup", vault, "--keep", 2).code == 0
    assert damage_in(base, vault) == []
    remaining = [info.run for info in list_backups(vault, SETTINGS)]
    cut(vault, remaining[0])
    assert damage_in(base, vault) == [("backup_missing", remaining[0])]


# ---- the key -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("backend", BACKENDS)
def test_m6_another_machine_restores_with_the_key_and_says_what_it_trusts(
    vault: Path, tmp_path: Path, backend: str
) -> None:
    base, elsewhere = tmp_path / "base", tmp_path / "elsewhere"
    uuid, _ = paused_task(base, backend)
    new_grant(OpenBase(base, SETTINGS), user="ana", role="admin")
    first = run("--base-dir", base, "backup", vault)
    assert "--show-key" in first.out
    shown = run("--base-dir", base, "backup", vault, "--show-key")
    assert not any(shown.out.split()[0].encode() in path.read_bytes() for path in vault.rglob("*") if path.is_file())
    refused = restored_to(elsewhere, vault, tmp_path / "copy")
    assert refused.code == 2
    assert "cannot be proved" in refused.err
    assert "--unverified" in refused.err
    assert not (tmp_path / "copy").exists()
    key = tmp_path / "key"
    key.write_text(shown.out)
    done = restored_to(elsewhere, vault, tmp_path / "copy", "--key-file", key)
    assert done.code == 0
    assert f"proved with the key {shown.out.split()[1]}" in done.out
    assert "tokens that are not revoked: 1 (for admins: 1)" in done.out
    assert not (tmp_path / "copy" / "backup.key").exists()
    assert run("--base-dir", tmp_path / "copy", "verify", uuid).code == 0
    assert run("--base-dir", tmp_path / "copy", "backup", vault).code == 2
    assert run("--base-dir", tmp_path / "copy", "backup", vault, "--key-file", key).code == 0


def test_m6_a_wrong_key_is_said(base: Path, vault: Path, tmp_path: Path) -> None:
    made(base, vault)
    key = tmp_path / "key"
    for wrong in ("", "0" * 64, f"{'0' * 64} {'0' * 16}"):
        key.write_text(wrong)
        assert "does not hold the key of a backup" in restored_to(base, vault, tmp_path / "c", "--key-file", key).err
    key.write_text(VaultKey(b"o" * 32).text)
    assert "signed with the key" in restored_to(base, vault, tmp_path / "c", "--key-file", key).err
    assert not (tmp_path / "c").exists()
    waived = restored_to(tmp_path / "nobody", vault, tmp_path / "c", "--unverified")
    assert (waived.code, "NOT PROVED" in waived.out) == (0, True)


# ---- old backups ---------------------------------------------------------------------------------------------------


def test_m6_a_backup_from_before_keys_is_restored_when_somebody_says_so(vault: Path, tmp_path: Path) -> None:
    """Made by the code before there were keys; see ``tests.stored``."""
    shutil.copytree(STORED, vault)
    nobody, copy = tmp_path / "nobody", tmp_path / "copy"
    refused = restored_to(nobody, vault, copy)
    assert (refused.code, "before backups were signed" in refused.err) == (2, True)
    done = restored_to(nobody, vault, copy, "--unverified")
    assert (done.code, "NOT PROVED" in done.out) == (0, True)
    assert run("--base-dir", copy, "verify", "00000000-0000-4000-8000-000000000001").code == 0
    checked = run("--base-dir", nobody, "backup", vault, "--check")
    assert (checked.code, "could not be proved" in checked.out) == (0, True)
    # The base goes on with its old vault; what was there is pinned as it is.
    assert run("--base-dir", copy, "backup", vault).code == 0
    assert damage_in(copy, vault) == []
    assert [info.standing for info in list_backups(vault, SETTINGS, key=VaultKey.of_base(copy))] == [
        "unkeyed",
        "unkeyed",
        "verified",
    ]
    old = "000001-20261118T011120Z"
    path = vault / "runs" / f"{old}.json"
    described = jsonio.decode(path.read_bytes())
    path.write_bytes(jsonio.encode({**described, "manifest_sha256": "0" * 64}))
    assert ("backup_foreign", old) in damage_in(copy, vault)
    cut(vault, old)
    assert damage_in(copy, vault) == [("backup_missing", old)]


def test_m6_a_forged_manifest_from_before_keys_is_not_believed(vault: Path, tmp_path: Path) -> None:
    """Its ``seen`` would say that a file has not changed, and bring other contents into a signed backup."""
    shutil.copytree(STORED, vault)
    copy = tmp_path / "copy"
    restored_to(tmp_path / "nobody", vault, copy, "--unverified")
    name = "completed/00000000-0000-4000-8000-000000000001/messages.jsonl"
    os.utime(copy / name, (1, 1))
    evil = (copy / name).read_bytes().replace(b"Keep this.", b"Pay  this.")
    digest = hashlib.sha256(evil).hexdigest()
    (vault / "pieces" / digest[:2]).mkdir(exist_ok=True)
    (vault / "pieces" / digest[:2] / digest).write_bytes(evil)
    run_name = "000002-20261118T011120Z"
    manifest = vault / "manifests" / run_name
    entries = list(read_manifest(manifest))
    manifest.unlink()
    with ManifestWriter(manifest) as writer:
        for entry in entries:
            fake = replace(entry, pieces=(Chunk(digest, len(evil)),), seen=seen((copy / name).stat()))
            writer.add(fake if entry.path == name else entry)
    path = vault / "runs" / f"{run_name}.json"
    described = jsonio.decode(path.read_bytes())
    new = hashlib.sha256(manifest.read_bytes()).hexdigest()
    path.write_bytes(jsonio.encode({**described, "manifest_sha256": new}))
    assert run("--base-dir", copy, "backup", vault).code == 0
    assert restored_to(copy, vault, tmp_path / "again").code == 0
    assert (tmp_path / "again" / name).read_bytes() == (copy / name).read_bytes()


def test_m6_a_kill_between_the_steps_is_nobodys_attack(base: Path, vault: Path) -> None:
    """What a base has noted and what a vault has differ after a kill: before the run counts, and just after."""
    (first,) = made(base, vault)
    memory, place = Memory(base), str(vault)
    identity = jsonio.decode((vault / "vault.json").read_bytes())["vault"]
    memory.note(identity, place, first, "000002-20990101T000000Z")  # begun, and never there
    assert damage_in(base, vault) == []
    (second,) = made(base, vault)
    memory.note(identity, place, first, second)  # there, and not noted as made
    assert damage_in(base, vault) == []
    made(base, vault)
    assert damage_in(base, vault) == []


# ---- what else whoever has the storage can put there ---------------------------------------------------------------


def test_numbers_that_somebody_has_used_up_bring_no_older_run_back(base: Path, vault: Path, tmp_path: Path) -> None:
    """The number orders the runs: one with more digits is the newer one, for a restore and for ``--keep``."""
    made(base, vault)
    (vault / "manifests" / "9999997-Z").touch()
    older = made(base, vault)[0]
    (vault / "manifests" / "9999999-Z").touch()
    newer = made(base, vault)[0]
    assert (older.partition("-")[0], newer.partition("-")[0]) == ("9999998", "10000000")
    told = json.loads(restored_to(base, vault, tmp_path / "again", "--json").out)
    assert told["run"] == newer
    kept = backup(OpenBase(base, SETTINGS), vault, keep=2)
    assert [info.run for info in list_backups(vault, SETTINGS)] == [newer, kept.run]


def test_a_number_after_which_there_is_none_is_refused(base: Path, vault: Path) -> None:
    """The run would be made, and found by nobody."""
    runs = made(base, vault)
    (vault / "manifests" / "999999999999-Z").touch()
    refused = run("--base-dir", base, "backup", vault)
    assert refused.code == 2
    assert "manifests/999999999999-Z" in refused.err
    assert [info.run for info in list_backups(vault, SETTINGS)] == runs


@pytest.mark.parametrize("folder", ["pieces", "manifests", "runs"])
def test_a_folder_of_the_vault_that_leads_elsewhere_is_not_emptied(
    base: Path, vault: Path, tmp_path: Path, folder: str
) -> None:
    """``--keep`` removes what no backup needs, and so would remove all that somebody has in another place."""
    made(base, vault, 2)
    theirs = tmp_path / "theirs"
    shutil.copytree(vault / folder, theirs)
    (theirs / "thesis.odt").write_text("ten years")
    shutil.rmtree(vault / folder)
    (vault / folder).symlink_to(theirs)
    before = sorted(theirs.rglob("*"))
    refused = run("--base-dir", base, "backup", vault, "--keep", "1")
    assert refused.code == 2
    assert f"{folder} in " in refused.err
    assert sorted(theirs.rglob("*")) == before


@pytest.mark.parametrize("what", ["vault.json", "run", "manifest", "piece"])
@pytest.mark.parametrize("how", ["pipe", "link", "huge"])
def test_what_is_no_file_of_ours_is_named_and_keeps_nobody_waiting(
    base: Path, vault: Path, tmp_path: Path, what: str, how: str
) -> None:
    name = made(base, vault)[0]
    piece = next(path for path in sorted((vault / "pieces").rglob("*")) if path.is_file())
    own = {"vault.json": "vault.json", "run": f"runs/{name}.json", "manifest": f"manifests/{name}"}
    path = vault / own[what] if what in own else piece
    if how == "pipe":
        path.unlink()
        os.mkfifo(path)
    elif how == "link":
        path.rename(tmp_path / "elsewhere")
        path.symlink_to(tmp_path / "elsewhere")
    else:
        os.truncate(path, 1 << 28)
    found = run("--base-dir", base, "backup", vault, "--check")
    assert found.code in (1, 2)
    assert "inside Orihon" not in found.err + found.out


@pytest.mark.parametrize("name", ["backup.key", "web.key", "config.yaml", ".env", "hooks/post"])
def test_a_manifest_brings_no_key_and_no_settings_along(name: str) -> None:
    """Also where somebody restores unverified: later backups would be signed with a key that its maker has."""
    with pytest.raises(ValueError, match=name.rpartition("/")[2]):
        FileEntry.from_record({"task": "~", "place": "", "name": name, "pieces": []})
