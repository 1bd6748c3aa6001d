"""Opening regular files, and nothing else."""

from __future__ import annotations

import os
import stat

from tocsin.tensors.storage import NotAFile

# Without a writer, opening a pipe to read from it waits for ever without O_NONBLOCK.
_FLAGS = (
    os.O_RDONLY
    | getattr(os, "O_NONBLOCK", 0)
    | getattr(os, "O_NOCTTY", 0)
    | getattr(os, "O_BINARY", 0)
)
_KINDS = {
    stat.S_IFDIR: "a folder",
    stat.S_IFIFO: "a named pipe",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
    stat.S_IFSOCK: "a socket",
}


def open_regular(path: str, flags: int = 0) -> int:
    """Return a descriptor of the regular file at ``path``, for reading. Raises NotAFile, OSError.

    What was opened is checked, not the path: that may be another file a moment later.
    """
    try:
        number = os.open(path, _FLAGS | flags)
    except OSError:
        mode = os.lstat(path).st_mode
        if not stat.S_ISLNK(mode):
            check_regular(path, mode)  # a socket cannot be opened
        raise
    try:
        check_regular(path, os.fstat(number).st_mode)
    except NotAFile:
        os.close(number)
        raise
    return number


def check_regular(name: str, mode: int) -> None:
    """Raises NotAFile unless ``mode`` is that of a regular file."""
    if not stat.S_ISREG(mode):
        raise NotAFile(name, _KINDS.get(stat.S_IFMT(mode), "something else"))
