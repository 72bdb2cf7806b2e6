"""Errors of this package."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence

__all__ = ["DsckptError", "PickleRefused", "PickledWarning"]


class DsckptError(Exception):
    """An operation of dsckpt failed.

    The message says which file, item and offset are concerned, what was expected and found, and
    what to do.

    Attributes:
        code: Why, as the C++ library names it: "NotFound", "Corrupt", "Truncated", "Mismatch",
            "NoSpace", "InvalidArgument", "Unsupported", ...; "PickleRefused" is Python's own.
        path: The file concerned, or None.
        offset: Byte offset in that file, or None.
        errno: The operating system's error number, or 0.
    """

    def __init__(
        self,
        message: str,
        code: str = "Internal",
        path: str | None = None,
        offset: int | None = None,
        errno: int = 0,
    ) -> None:
        super().__init__(message)
        self.code = code
        self.path = path
        self.offset = offset
        self.errno = errno

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (str(self), self.code, self.path, self.offset, self.errno)


class PickleRefused(DsckptError):
    """Pickled objects were not loaded, because they name classes that nobody has allowed.

    The message names the classes, the places of all such objects in the state and the file, and
    what to pass to allow them. Nothing that is not allowed has been imported or called.

    Attributes:
        path: The file, or None.
        classes: The "module.QualName" strings that `allow` lacks.
        never: What they name besides that `allow` never loads, because it can run any code.
    """

    def __init__(
        self,
        message: str,
        path: str | None = None,
        classes: Sequence[str] = (),
        never: Sequence[str] = (),
    ) -> None:
        super().__init__(message, "PickleRefused", path)
        self.classes = tuple(classes)
        self.never = tuple(never)

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (str(self), self.path, self.classes, self.never)


class PickledWarning(UserWarning):
    """A save pickles a whole module, optimizer or the like, which has a state_dict() to be saved
    instead: load() refuses it unless its classes are allowed. To have such saves fail:
    `warnings.simplefilter("error", dsckpt.PickledWarning)`."""


def from_status(
    code: str, message: str, path: str | None, offset: int | None, errno: int
) -> DsckptError:
    """Makes the exception for a status of the native library, with the place in its message."""
    if path is not None and path not in message:
        message = f"{path}: {message}"
    if offset is not None and str(offset) not in message:
        message = f"{message} (at byte {offset})"
    return DsckptError(message, code, path, offset, errno)


@contextlib.contextmanager
def text_of(file: str) -> Iterator[None]:
    """Around native calls that make str of what a file says.

    Raises:
        DsckptError: Corrupt, where a text is no UTF-8.
    """
    try:
        yield
    except (UnicodeDecodeError, RuntimeError) as error:
        if isinstance(error, RuntimeError) and "nanobind::str" not in str(error):
            raise
        raise DsckptError(
            f"{file}: a text in the index is no UTF-8, although its checksum is right: whatever "
            "wrote the file is broken; use another copy",
            "Corrupt",
            file,
        ) from None


@contextlib.contextmanager
def half_filled() -> Iterator[None]:
    """Around what fills tensors of a caller: an error says what they hold then."""
    try:
        yield
    except DsckptError as error:
        error.args = (
            f"{error}. Tensors of the state may hold a mixture of old and loaded values now: load "
            "them from elsewhere before they are used",
        )
        raise


def place(path: Sequence[object]) -> str:
    """The place of a value in a state, for messages: "state['optimizer']['state'][0]"."""
    keys = path[1:] if path and path[0] == "" else path  # A root that is no dict has the key "".
    return "state" + "".join(f"[{key!r}]" for key in keys)
