"""Files that a user names: reading regular ones only, and what helps when the system refuses.

A pipe would block and a device may never end, so both are refused before a byte is read.
"""

from __future__ import annotations

import errno
import os
import stat
from typing import BinaryIO

from armtrain.errors import ArgumentError, StorageError

__all__ = ["explain", "open_regular", "path_text", "read_regular", "takes_files"]

_SPACE = "free some space or choose another directory"
_RIGHTS = "give this user the rights (ls -ld shows them) or choose another place"
# kernels/engine/file_advice.c says the same.
_ADVICE = {
    errno.ENOSPC: _SPACE,
    errno.EDQUOT: _SPACE,
    errno.EFBIG: "raise the limit on file sizes (ulimit -f) or choose another directory",
    errno.EACCES: _RIGHTS,
    errno.EPERM: _RIGHTS,
    errno.EROFS: "it is mounted read-only: choose another directory",
    errno.ENOENT: "check the path",
    errno.ENOTDIR: "check the path: a part of it is no directory",
    errno.EISDIR: "it is a directory: name a file",
    errno.ENAMETOOLONG: "use a shorter name",
    errno.ELOOP: "check the symbolic links in the path",
    errno.EMFILE: "close other files or raise their number (ulimit -n)",
    errno.ENFILE: "close other programs",
    errno.EBADF: "it is closed: redirect it to a file or to /dev/null",
    errno.ENXIO: "it is a socket, or a pipe that nobody reads: name a regular file",
    errno.EIO: "the medium may be failing: see dmesg, and use another one",
}
_GONE = "the current directory was deleted: change to one that exists"
_KINDS = (
    (stat.S_ISDIR, "a directory"),
    (stat.S_ISFIFO, "a pipe"),
    (stat.S_ISCHR, "a device"),
    (stat.S_ISBLK, "a device"),
    (stat.S_ISSOCK, "a socket"),
)
# File systems without files that have no name.
_UNNAMED_UNKNOWN = (errno.EOPNOTSUPP, errno.EISDIR, errno.EINVAL, errno.ENOENT)


def explain(error: OSError) -> str:
    """Return what the system said and what helps against it, without the path."""
    said = error.strerror or str(error)
    advice = _ADVICE.get(error.errno or 0, "choose another file or directory")
    return f"{said}; {_GONE if error.errno == errno.ENOENT and _is_here_gone() else advice}"


def _is_here_gone() -> bool:
    """Tell whether the current directory was deleted."""
    try:
        os.getcwd()
    except FileNotFoundError:
        return True
    return False


def path_text(path: str | os.PathLike[str]) -> str:
    """Return a path as text; raises ArgumentError for one that no file can have."""
    text = os.fspath(path) if isinstance(path, str | os.PathLike) else None
    if not isinstance(text, str):
        raise ArgumentError(f"a path is a str or a pathlib.Path, got {path!r:.80}")
    if "\0" in text:
        raise ArgumentError(f"the path {text!r} holds a NUL character, which no file name has")
    return text


def open_regular(
    path: str | os.PathLike[str], what: str = "", *, buffered: bool = False
) -> BinaryIO:
    """Open a regular file for reading.

    Parameters
    ----------
    path : path-like
    what : str
        What the file should be, for the message: 'the plan '.
    buffered : bool
        Read more than asked for; by default each read is one of the system.

    Raises
    ------
    StorageError
        There is no such file, it may not be read, or it is no regular file.
    ArgumentError
        It is no path, or holds a NUL character.
    """
    name = path_text(path)
    try:
        # Opening a pipe would wait for its writer without this flag; files do not care.
        descriptor = os.open(name, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        raise StorageError(f"cannot read {what}{name}: {explain(error)}") from error
    mode = os.fstat(descriptor).st_mode
    if not stat.S_ISREG(mode):
        os.close(descriptor)
        kind = next((text for test, text in _KINDS if test(mode)), "no file")
        raise StorageError(
            f"cannot read {what}{name}: it is {kind}, not a regular file; name a file, or copy "
            "the content into one first"
        )
    return open(descriptor, "rb", buffering=-1 if buffered else 0)


def read_regular(path: str | os.PathLike[str], what: str = "") -> bytes:
    """Return the whole content of a regular file; raises as `open_regular` does."""
    with open_regular(path, what) as file:
        try:
            return file.read()
        except OSError as error:
            raise StorageError(f"cannot read {what}{os.fspath(path)}: {explain(error)}") from error


def takes_files(directory: str | os.PathLike[str]) -> None:
    """Raise OSError unless files may be created in a directory; nothing is left behind."""
    try:
        flags = os.O_TMPFILE | os.O_WRONLY | os.O_CLOEXEC
        os.close(os.open(directory, flags, 0o600))
    except OSError as error:
        # In a deleted directory, which some file systems call a lack of rights.
        if error.errno in (errno.EPERM, errno.ENOENT) and os.stat(directory).st_nlink == 0:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT)) from error
        if error.errno not in _UNNAMED_UNKNOWN or not os.access(directory, os.W_OK | os.X_OK):
            raise
