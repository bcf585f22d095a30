"""Parameters along a run."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, overload

import numpy as np

from afterfit._base.errors import require
from afterfit._diagnose.words import power_of_ten

__all__ = ["Checkpoints"]


class Checkpoints(Sequence[Any]):
    """The parameters that a run had at some `times`, after `steps` steps: each a tree of NumPy arrays.

    Those of a run that was loaded are read from its files, and held against their checksums, when they are asked for.

    ```python
    run = af.train(..., checkpoints=20)
    run.checkpoints[3]["weights"]
    run.checkpoints.near(1e3)  # at the time nearest to 1000, on a log axis
    for time, params in zip(run.checkpoints.times, run.checkpoints):
        ...
    ```
    """

    def __init__(self, log10_times: Sequence[float], steps: Sequence[int], read: Callable[[int], Any]):
        self.log10_times, self.steps, self._read = list(log10_times), list(steps), read

    @classmethod
    def held(cls, kept: Iterable[tuple[float, int, Any]]) -> Checkpoints:
        """Those that are in memory, each with log₁₀ of its time, its step and its parameters."""
        kept = list(kept)
        params = [params for _, _, params in kept]
        return cls([time for time, _, _ in kept], [step for _, step, _ in kept], params.__getitem__)

    @property
    def times(self) -> np.ndarray:
        """Their training times, 0 at the start; infinite where there is no float for one."""
        return np.array([power_of_ten(time) for time in self.log10_times])

    def near(self, time: float) -> Any:
        """The parameters at the time that is nearest to `time` on a log axis (0 is the start)."""
        require(len(self) > 0, "this run kept no parameters on its way: train it with checkpoints=20, say.")
        require(time >= 0, f"a training time is 0 or more, got {time}.")
        if time == 0:
            return self[0]
        away = np.abs(np.array(self.log10_times) - np.log10(time))
        return self[int(np.argmin(away))]

    @overload
    def __getitem__(self, index: int) -> Any: ...

    @overload
    def __getitem__(self, index: slice) -> list[Any]: ...

    def __getitem__(self, index: int | slice) -> Any:
        places = range(len(self))[index]
        return [self._read(place) for place in places] if isinstance(places, range) else self._read(places)

    def __len__(self) -> int:
        return len(self.steps)

    def __reduce__(self) -> tuple[Any, ...]:
        # To another process, which may not reach the files, they go as they are.
        return Checkpoints.held, (list(zip(self.log10_times, self.steps, self, strict=True)),)

    def __repr__(self) -> str:
        span = f", t={self.times[0]:.3g} to {self.times[-1]:.3g}" if self.steps else ""
        return f"<{len(self)} checkpoint{'s' * (len(self) != 1)}{span}>"
