"""Makes our copy of SQLite lock the index of a log (``-shm``) by open description instead of by process.

SQLite's locks belong to the process. A second copy of it in the same process (Python's own ``sqlite3``) does not meet
those of the first one, and drops them when it closes the file: both write at once, and what was acknowledged is gone.
A lock of a description meets every other one, those of the same process too. SQLite has a place for another ``fcntl``
(``xSetSystemCall``); a function written in Python would not do there: a signal could raise an error in the middle of
it, and a thread that ends with the interpreter would keep SQLite's own locks. So it is a few instructions. They hand
everything on to the ``fcntl`` that was there, after these two changes to a lock of the bytes 120 to 128, which SQLite
uses in the index and nowhere else (see "WAL-index format"):

- ``F_GETLK``, ``F_SETLK``, ``F_SETLKW`` become ``F_OFD_GETLK``, ``F_OFD_SETLK``, ``F_OFD_SETLKW``, and
- ``l_pid`` becomes 0, as those want it.

Such a lock lives until nobody has the description any more, be it through a descriptor or through memory that was
mapped from it. So a forked child gives back both. What SQLite maps gets a harmless mark for that (``MAP_NORESERVE``),
by which it is told from what another copy has mapped.

It is tried out before SQLite gets it. Where it cannot be had (another system or processor, one that lets nobody make
code) the locks stay those of the process; what is safe there is written in ``docs/file-formats.md``.
"""

from __future__ import annotations

import ctypes
import fcntl
import mmap
import os
import platform
import struct
import sys
from contextlib import ExitStack, suppress
from pathlib import Path

import apsw

_DESCRIPTORS = Path("/proc/self/fd")
#: Where the address of the function comes in that was there.
_NEXT = b"\x88\x77\x66\x55\x44\x33\x22\x11"
_FCNTL_X86 = (
    "f30f1efa"  # endbr64
    "8d46fb"  # lea eax, [rsi - 5]         the command: F_GETLK is 5, F_SETLK 6, F_SETLKW 7
    "83f802"  # cmp eax, 2
    "7718"  # ja next
    "488b4208"  # mov rax, [rdx + 8]       l_start
    "4883e878"  # sub rax, 120
    "4883f808"  # cmp rax, 8
    "770a"  # ja next
    "83c61f"  # add esi, 31                F_OFD_GETLK is 36
    "c7421800000000"  # mov dword [rdx + 24], 0    l_pid
)
_MMAP_X86 = (
    "f30f1efa"  # endbr64
    "81c900400000"  # or ecx, 0x4000       MAP_NORESERVE
)
_GO_X86 = f"48b8{_NEXT.hex()}ffe0"  # next: mov rax, …; jmp rax
_FCNTL_ARM = (
    "5f2403d5"  # bti c
    "23140051"  # sub w3, w1, #5
    "7f080071"  # cmp w3, #2
    "e8000054"  # b.hi next
    "430440f9"  # ldr x3, [x2, #8]
    "63e001d1"  # sub x3, x3, #120
    "7f2000f1"  # cmp x3, #8
    "68000054"  # b.hi next
    "217c0011"  # add w1, w1, #31
    "5f1800b9"  # str wzr, [x2, #24]
)
_MMAP_ARM = (
    "5f2403d5"  # bti c
    "63001232"  # orr w3, w3, #0x4000
)
_GO_ARM = f"5000005800021fd6{_NEXT.hex()}"  # next: ldr x16, …; br x16
_CODE = {
    "x86_64": {"fcntl": _FCNTL_X86 + _GO_X86, "mmap": _MMAP_X86 + _GO_X86},
    "aarch64": {"fcntl": _FCNTL_ARM + _GO_ARM, "mmap": _MMAP_ARM + _GO_ARM},
}
_Function = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_void_p)
_FLOCK = "@hhqqi0q"
_WRITER, _OUTSIDE = 120, 200
_MAP_FIXED = 0x10
#: Where the number of the file is in a line of ``/proc/self/smaps``, behind its addresses.
_INODE = 3

_is_in_use = False


def use_description_locks() -> bool:
    """Does our copy of SQLite lock by description? From now on, if it can be had.

    Not while a connection has an index open: it would give back locks of one kind that are of the other.
    """
    global _is_in_use
    if not _is_in_use and (not apsw.connections() or not _has_index()):
        with suppress(OSError, AttributeError, apsw.Error):
            _is_in_use = _install()
    return _is_in_use


def _has_index() -> bool:
    for entry in list(_DESCRIPTORS.iterdir()):
        with suppress(OSError):
            if _is_index(entry):
                return True
    return False


def _is_index(descriptor: Path) -> bool:
    return str(descriptor.readlink()).removesuffix(" (deleted)").endswith("-shm")


def _install() -> bool:
    codes = _CODE.get(platform.machine())
    if sys.platform != "linux" or codes is None or struct.calcsize("P") != len(_NEXT):
        return False
    unix = apsw.VFS("orihon-locks", base="unix")
    try:
        made = {name: _made(code, unix.xGetSystemCall(name) or 0) for name, code in codes.items()}
        return _is_sound(made["fcntl"]) and all(unix.xSetSystemCall(name, made[name]) for name in ("mmap", "fcntl"))
    finally:
        unix.unregister()


def _made(code: str, following: int) -> int:
    """The address of a function that consists of these instructions; it stays for as long as the process."""
    file = os.memfd_create("orihon-locks", os.MFD_CLOEXEC)  # so that no page can be written and run
    try:
        os.write(file, bytes.fromhex(code).replace(_NEXT, struct.pack("@Q", following)))
        return _mapped(0, mmap.PAGESIZE, mmap.PROT_READ | mmap.PROT_EXEC, mmap.MAP_PRIVATE, file)
    finally:
        os.close(file)


def _mapped(address: int, length: int, access: int, flags: int, file: int = -1) -> int:
    libc = ctypes.CDLL(None, use_errno=True)
    libc.mmap.restype = ctypes.c_void_p
    libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long]
    found = libc.mmap(address, length, access, flags, file, 0)
    if found in (None, ctypes.c_void_p(-1).value):
        raise OSError(ctypes.get_errno(), "no room for memory of this kind")
    return int(found)


def _is_sound(address: int) -> bool:
    """Does a lock by this function meet one of the same process, inside the index and only there?"""
    function = _Function(address)
    with ExitStack() as stack:
        first = os.memfd_create("orihon-locks", os.MFD_CLOEXEC)
        stack.callback(os.close, first)
        second = os.open(_DESCRIPTORS / str(first), os.O_RDWR | os.O_CLOEXEC)
        stack.callback(os.close, second)
        for byte, is_met in ((_WRITER, True), (_OUTSIDE, False)):
            lock = ctypes.create_string_buffer(struct.pack(_FLOCK, fcntl.F_WRLCK, os.SEEK_SET, byte, 1, -1))
            if function(first, fcntl.F_SETLK, ctypes.addressof(lock)) != 0:
                return False
            try:
                fcntl.fcntl(second, fcntl.F_SETLK, lock.raw[: struct.calcsize(_FLOCK)])
            except OSError:
                if not is_met:
                    return False
            else:
                if is_met:
                    return False
        return bool(function(first, fcntl.F_GETFD, 0) == fcntl.FD_CLOEXEC)


# ---- behind a fork ---------------------------------------------------------------------------------------------------


def _leave_to_parent() -> None:
    """In a forked child: what SQLite unlocks there would be unlocked for the parent, and kept when that is gone.

    A connection must not be used behind a fork. Its descriptor of the index leads nowhere, and its memory is its own.
    """
    if not _is_in_use:
        return
    nowhere = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
    for entry in list(_DESCRIPTORS.iterdir()):
        with suppress(OSError):
            if _is_index(entry) and "OFDLCK" in Path(f"/proc/self/fdinfo/{entry.name}").read_text("ascii"):
                _make_own(int(entry.name))
                os.dup2(nowhere, int(entry.name), inheritable=False)
    os.close(nowhere)


def _make_own(index: int) -> None:
    for start, end, offset in _mappings(os.fstat(index).st_ino):
        held = os.pread(index, end - start, offset)
        kind = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | _MAP_FIXED
        ctypes.memmove(_mapped(start, end - start, mmap.PROT_READ | mmap.PROT_WRITE, kind), held, len(held))


def _mappings(inode: int) -> list[tuple[int, int, int]]:
    """From where to where our copy of SQLite has mapped a file, and from which place in it."""
    found, place = [], None
    for line in Path("/proc/self/smaps").read_text("utf-8", "replace").splitlines():
        head, *fields = line.split()
        if head == "VmFlags:" and place is not None and "nr" in fields:
            found.append(place)
        elif "-" in head and len(fields) > _INODE:
            start, end = (int(number, 16) for number in head.split("-"))
            place = (start, end, int(fields[1], 16)) if int(fields[_INODE]) == inode else None
    return found


os.register_at_fork(after_in_child=_leave_to_parent)
