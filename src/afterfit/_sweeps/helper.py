"""A process that does jobs for another one: `python -m afterfit._sweeps.helper`, started by `processes`.

It reads what to do from its standard input and writes what comes of it to its standard output, pickled. The thread that
reads does nothing else, so that it hears at once when it is to stop, or when the other process is gone.
"""

from __future__ import annotations

import functools
import os
import pickle
import sys
import threading
from typing import Any

import cloudpickle


def main() -> None:
    """Do jobs until there is nobody to do them for."""
    out = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what a user's code prints must not get between
    import jax
    import xarray  # noqa: F401  (now, not when a run that is interrupted has a second to be written down)

    from afterfit._base.turns import in_a_thread
    from afterfit._sweeps.jobs import Parcel, work

    speaking, stop = threading.Lock(), threading.Event()

    def tell(what: str, value: Any = None) -> None:
        content = cloudpickle.dumps((what, Parcel.pack(*value) if what == "ended" else value))
        with speaking:
            out.write(content)
            out.flush()

    read = sys.stdin.buffer
    try:
        for name, value in pickle.load(read).items():  # noqa: S301  (written by our own process)
            jax.config.update(name, value)
        tell("ready")
        while True:
            what, content = pickle.load(read)  # noqa: S301
            if what == "stop":
                stop.set()
                continue
            try:
                job = pickle.loads(content)  # noqa: S301
            except Exception as error:  # such as a module that is not to be found here
                tell("refused", str(error))
                continue
            in_a_thread(functools.partial(work, job, tell, stop))
    except (EOFError, KeyboardInterrupt):
        os._exit(0)  # whatever compiled code is doing


if __name__ == "__main__":
    main()
