"""Questions in SQL, each answered by a process of its own (`answer.py`) that can do nothing else.

DuckDB in there has no files, no network and no extensions. Its own limits do not bound everything: `SELECT
range(1000000000)` takes 20 GB where 1 GB is allowed, for more than a minute, and cannot be interrupted. So it is this
process that watches memory and time, and ends the other one.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Self

from afterfit._base.errors import SpecError
from afterfit._sweeps.store.answer import as_stream, receive, send

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["Database"]

SECONDS, MEMORY = 60.0, 2e9  # what a question may take
_LOOK = 0.02  # seconds between two looks at what it has taken


class Database:
    """A process that answers one question. It starts at once, and ends with the block.

    ```python
    with Database() as database:
        database.ask("SELECT count(*) FROM runs", table)
    ```
    """

    def __init__(self):
        answer = Path(__file__).with_name("answer.py")
        # -P: a file in the working directory that is called like a library is not loaded in its place.
        path = os.pathsep.join(place for place in sys.path if place)
        self._process = subprocess.Popen(
            [sys.executable, "-P", str(answer)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={**os.environ, "PYTHONPATH": path},
        )
        self._ended_for = ""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            assert pipe
            with contextlib.suppress(OSError):  # of what was not sent any more
                pipe.close()

    def ask(
        self, sql: str, runs: pa.Table, curves: Mapping[str, str | bytes] | None = None
    ) -> tuple[pa.Table, list[str]]:
        """The answer, from the table `runs` and the curves of runs: by name, the file's path or what is in it.

        With it come the names of those whose curves were none, and were left out.
        """
        import pyarrow as pa

        incoming, outgoing = self._process.stdout, self._process.stdin
        assert incoming
        assert outgoing
        threading.Thread(target=self._watch, name="afterfit query", daemon=True).start()
        paths = curves and {id: file if isinstance(file, str) else None for id, file in curves.items()}
        question = {"sql": sql, "curves": paths, "memory": MEMORY, "seconds": 2 * SECONDS}
        try:
            with contextlib.suppress(BrokenPipeError):  # it has said why before it heard everything
                send(outgoing, json.dumps(question).encode())
                send(outgoing, as_stream(runs))
                for file in (curves or {}).values():
                    if isinstance(file, bytes):
                        send(outgoing, file)
            said, answer = json.loads(receive(incoming)), receive(incoming)
        except EOFError:
            code = self._process.wait()
            why = self._ended_for or f"the process that answers ended by itself (exit code {code})"
            raise SpecError(f"cannot answer {_short(sql)}: {why}.") from None
        if said["refusal"]:
            raise SpecError(f"cannot answer {_short(sql)}: {said['refusal']}")
        return pa.ipc.open_stream(answer).read_all(), said["unread"]

    def _watch(self) -> None:
        """End a question that takes too much."""
        import psutil

        until = time.monotonic() + SECONDS
        with contextlib.suppress(psutil.Error):  # it has ended
            process = psutil.Process(self._process.pid)
            while self._process.poll() is None and not self._ended_for:
                time.sleep(_LOOK)
                if time.monotonic() > until:
                    self._ended_for = f"it takes longer than {SECONDS:g} s, and was stopped"
                elif process.memory_info().rss > MEMORY:
                    self._ended_for = f"it takes more memory than {MEMORY / 1e9:g} GB, and was stopped"
        if self._ended_for:
            self._process.kill()


def _short(sql: str) -> str:
    return repr(sql if len(sql) <= 200 else f"{sql[:200]}…")
