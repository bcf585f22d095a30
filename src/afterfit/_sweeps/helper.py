"""A process that does jobs for another one: `python -m afterfit._sweeps.helper`, started by `processes`.

The thread that listens does nothing else, so that it hears at once when it is to stop, or when the other process is
gone.
"""

from __future__ import annotations

import functools
import pickle
import threading
from typing import Any

from afterfit._base.pipes import Parent


def main() -> None:
    """Do jobs until there is nobody to do them for."""
    parent = Parent()
    import jax
    import xarray  # noqa: F401  (now, not when a run that is interrupted has a second to be written down)

    from afterfit._base.turns import in_a_thread
    from afterfit._sweeps.jobs import Parcel, work

    stop = threading.Event()

    def tell(what: str, value: Any = None) -> None:
        parent.tell(what, Parcel.pack(*value) if what == "ended" else value)

    messages = parent.messages()
    for name, value in next(messages).items():
        jax.config.update(name, value)
    tell("ready")
    for what, content in messages:
        if what == "stop":
            stop.set()
            continue
        try:
            job = pickle.loads(content)  # noqa: S301  (written by our own process)
        except Exception as error:  # such as a module that is not to be found here
            tell("refused", str(error))
            continue
        in_a_thread(functools.partial(work, job, tell, stop))


if __name__ == "__main__":
    main()
