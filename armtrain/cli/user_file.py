"""A user's Python file: the model it makes, and whose fault an exception is.

Everything that runs the user's code (the file itself, its factory, the tracing of `forward`) does
so inside `user_code`, which turns the user's own exceptions into a message with file and line and
keeps what the user's code prints out of the standard output.
What armtrain gets wrong passes through and is reported as a defect.
"""

from __future__ import annotations

import importlib.util
import linecache
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from traceback import FrameSummary, StackSummary, extract_tb
from types import ModuleType
from typing import Any

from armtrain.cli.common import UsageError
from armtrain.cli.output import output_as_errors
from armtrain.errors import ArmtrainError

__all__ = ["ModelError", "model_file", "model_from_file", "user_code"]

_OURS = Path(__file__).resolve().parents[1]


class ModelError(ArmtrainError):
    """The user's Python file cannot make a model."""


def model_file(text: str) -> tuple[Path, str]:
    """Return file and callable of 'file.py:callable'.

    Raises
    ------
    UsageError
        The text has another form, or there is no such file.
    """
    path, colon, name = text.rpartition(":")
    if not colon or not path.endswith(".py"):
        raise UsageError(f"MODEL '{text}' is unknown; write zoo:NAME or file.py:callable")
    if not Path(path).is_file():
        raise UsageError(f"MODEL '{text}': there is no file {path}")
    return Path(path), name


def model_from_file(path: Path, name: str) -> Any:
    """Return what the callable `name` of a Python file returns; call it inside `user_code`.

    Raises
    ------
    UsageError
        The file has no such callable.
    """
    module = _load(path)
    make = getattr(module, name, None)
    if not callable(make):
        found = sorted(n for n, v in vars(module).items() if _is_from(module, v) and n[0] != "_")
        raise UsageError(
            f"MODEL: {path} has no callable '{name}'; it has {', '.join(found) or 'none'}"
        )
    return make()


def _is_from(module: ModuleType, value: object) -> bool:
    """Tell whether a function or class was defined in a module, not imported there."""
    return callable(value) and getattr(value, "__module__", None) == module.__name__


def _load(path: Path) -> ModuleType:
    """Execute a Python file as a module of its own name, which dataclasses look up."""
    name = f"armtrain_model_{path.stem}"
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise ModelError(f"{path} cannot be loaded as a Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


@contextmanager
def user_code(path: Path) -> Iterator[None]:
    """Let the user's file import from its folder, and name its line when it fails.

    What the file prints goes to the standard error: the standard output may have to be JSON.

    Raises
    ------
    ModelError
        In place of an exception that is the user's.
    """
    folder = str(path.resolve().parent)
    sys.path.insert(0, folder)
    try:
        with output_as_errors():
            yield
    except ArmtrainError as error:
        line = _last_line(error.__cause__, path)
        if line is None:
            raise
        raise ModelError(f"{line}: {error}") from error
    except (Exception, SystemExit) as error:
        place = _place(error, path)
        if place is None:
            raise
        said = ": ".join(filter(None, (type(error).__name__, " ".join(str(error).split()))))
        raise ModelError(f"{place}: {said}") from error
    finally:
        sys.path.remove(folder)


def _place(error: BaseException, path: Path) -> str | None:
    """Return 'file:line' of the user's code that failed; None when the fault is armtrain's."""
    if isinstance(error, SyntaxError) and error.filename:
        return f"{_shown(error.filename, path)}:{error.lineno}"
    frames = extract_tb(error.__traceback__)
    users = _users_frames(frames, path)
    if not users:
        return None
    ours = [f for f in frames[users[-1] + 1 :] if _is_ours(Path(f.filename))]
    if ours and not _is_refusal(frames[-1]):
        return None
    return _line(frames[users[-1]], path)


def _last_line(cause: BaseException | None, path: Path) -> str | None:
    """Return 'file:line' of the user's last call in an endless recursion; None for other causes."""
    if not isinstance(cause, RecursionError):
        return None
    frames = extract_tb(cause.__traceback__)
    users = _users_frames(frames, path)
    return _line(frames[users[-1]], path) if users else None


def _users_frames(frames: StackSummary, path: Path) -> list[int]:
    """Return which frames run code of the model's file or of one beside it."""
    folder = path.resolve().parent
    return [i for i, f in enumerate(frames) if _is_users(Path(f.filename), folder)]


def _line(frame: FrameSummary, path: Path) -> str:
    """Return 'file:line' of a frame."""
    return f"{_shown(frame.filename, path)}:{frame.lineno}"


def _is_ours(file: Path) -> bool:
    """Tell whether a file belongs to armtrain."""
    return _OURS in file.resolve().parents


def _is_users(file: Path, folder: Path) -> bool:
    """Tell whether a file lies beside the model's."""
    return file.resolve().parent == folder and not _is_ours(file)


def _is_refusal(last: FrameSummary) -> bool:
    """Tell whether armtrain refused a call: by `raise`, or by the arguments of `forward`."""
    line = linecache.getline(last.filename, last.lineno or 0).strip()
    return line.startswith("raise ") or (_is_ours(Path(last.filename)) and ".forward(" in line)


def _shown(filename: str, path: Path) -> str:
    """Return a file as the user wrote it if it is the model's."""
    return str(path) if Path(filename).resolve() == path.resolve() else filename
