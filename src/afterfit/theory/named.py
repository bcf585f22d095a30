"""Things with a name, in order."""

from __future__ import annotations

from typing import Any

from afterfit.spec import nearest

__all__ = ["Named"]


class Named(tuple):
    """Things with a `name`, in order: `things[0]` is the first, `things["its name"]` the one of that name."""

    def __getitem__(self, key: Any) -> Any:
        if not isinstance(key, str):
            return super().__getitem__(key)
        by_name = {thing.name: thing for thing in self}
        if key not in by_name:
            raise KeyError(f"nothing here is named {key!r}: {nearest(key, by_name)}")
        return by_name[key]

    def __contains__(self, key: object) -> bool:
        return any(thing.name == key for thing in self) if isinstance(key, str) else super().__contains__(key)

    def __str__(self) -> str:
        return "\n".join(map(str, self))

    __repr__ = __str__
