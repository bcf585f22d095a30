"""Another process of ours, and how the two talk: pickles through its standard input and output, read by nobody else.

It is `python -m` some module of afterfit's, started as anyone would on a command line: a user's script is not run again
in it. It ends when the one that has started it ends, however that comes about: its input then ends.
"""

from __future__ import annotations

import contextlib
import os
import pickle
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from typing import IO, Any

import cloudpickle

__all__ = ["Child", "Parent", "search_path"]


def search_path() -> str:
    """Where this Python looks for modules, such as beside the user's script: other processes look there too."""
    return os.pathsep.join(path or os.getcwd() for path in sys.path)


class Child:
    """A process that this one starts. Ctrl-C does not reach it.

    `hear` is called, in a thread of its own, with whatever the process tells: what it is, and a value. The last is
    `died`, with how it ended. What it prints goes to `log`; if there is none, to where this process complains.
    """

    def __init__(
        self,
        module: str,
        hear: Callable[[str, Any], None],
        *,
        environment: Mapping[str, str] | None = None,
        log: IO[bytes] | None = None,
    ):
        self._hear = hear
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-m", module],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
            env={**os.environ, **(environment or {}), "PYTHONPATH": search_path()},
            start_new_session=True,
        )
        self.pid = self._process.pid
        self._in: Any = self._process.stdin
        self._out: Any = self._process.stdout
        threading.Thread(target=self._listen, daemon=True, name=f"afterfit-{module}").start()

    def send(self, message: Any) -> None:
        with contextlib.suppress(OSError):  # it is dead, which the one who listens will tell
            pickle.dump(message, self._in)
            self._in.flush()

    def end(self) -> None:
        """End it now."""
        self._process.kill()
        self._process.wait()
        for file in (self._in, self._out):
            with contextlib.suppress(OSError):
                file.close()

    def _listen(self) -> None:
        try:
            while True:
                self._hear(*pickle.load(self._out))  # noqa: S301  (written by our own process)
        except Exception:  # it has ended, or what it says cannot be read
            self._process.kill()
            code = self._process.wait()
            self._hear("died", f"signal {-code}" if code < 0 else f"exit code {code}")


class Parent:
    """The process that has started this one, which is a `Child` there."""

    def __init__(self) -> None:
        self._out = os.fdopen(os.dup(1), "wb")
        os.dup2(2, 1)  # what a user's code prints must not get between
        self._in = sys.stdin.buffer
        self._speaking = threading.Lock()

    def tell(self, what: str, value: Any = None) -> None:
        """Tell it something, from any thread."""
        content = cloudpickle.dumps((what, value))
        with self._speaking:
            self._out.write(content)
            self._out.flush()

    def messages(self) -> Iterator[Any]:
        """What it sends, as it comes. When there is nobody left who could, this process ends, whatever it is at."""
        try:
            while True:
                yield pickle.load(self._in)  # noqa: S301  (written by our own process)
        except (EOFError, pickle.UnpicklingError, KeyboardInterrupt):  # it may have gone in the middle of a word
            os._exit(0)
