"""Things of Optax's, transformations and schedules: as objects in Python, as tables with name and arguments in TOML."""

from __future__ import annotations

import inspect
import json
from collections.abc import Iterator, Mapping
from typing import Any

from afterfit._base.definitions import code_of, digest_if_told
from afterfit._base.errors import SpecError, nearest, require
from afterfit._base.spec import plain_number

__all__ = ["as_recipe", "codes_of", "made", "makers_of", "said_of"]


class Recipe(dict):
    """A call of Optax's as plain data: `{"kind": "lion", "learning_rate": 1e-3}` is `optax.lion(learning_rate=1e-3)`.

    All of it is part of the compiled program, since Optax looks at the numbers when it makes a thing. So it can be
    hashed.
    """

    def __hash__(self) -> int:  # pyright: ignore[reportIncompatibleVariableOverride]
        return hash(json.dumps(self, sort_keys=True))


def as_recipe(value: Any, where: str) -> Any:
    """A table as a `Recipe`, a list of tables as a tuple of them; an object of Optax's as it is."""
    if type(value) in (list, tuple):
        return tuple(as_recipe(part, f"{where}[{k}]") for k, part in enumerate(value))
    if not isinstance(value, Mapping):
        return value
    require(
        "kind" in value,
        f"{where} does not say its kind, a name of Optax's such as 'lion': got {dict(value)!r:.80}. (One that was "
        "given as an object exists in Python only.)",
    )
    try:
        return Recipe(json.loads(json.dumps(value, default=plain_number, allow_nan=False)))
    except (TypeError, ValueError, RecursionError):
        raise SpecError(
            f"{where} must hold finite numbers, words, lists and tables, got {dict(value)!r:.80}."
        ) from None


def made(value: Any, where: str) -> Any:
    """What a recipe makes, and of several their chain; an object as it is."""
    import optax  # on first use: importing it costs a tenth of a second that most runs need not pay

    if type(value) is tuple:
        return optax.chain(*(made(part, where) for part in value))
    return _made(value, where) if isinstance(value, Recipe) else value


def _made(value: Any, where: str) -> Any:
    """A table with a kind as what Optax makes of it, and whatever has such tables in it."""
    if isinstance(value, list):
        return [_made(part, where) for part in value]
    if not isinstance(value, dict):
        return value
    parts = {name: _made(part, where) for name, part in value.items()}
    if "kind" not in parts:  # such as {1000: 0.1}, for plain data have words as names
        return {int(name) if name.isdigit() else name: part for name, part in parts.items()}
    known, kind = _functions(), parts.pop("kind")
    require(kind in known, f"{where}: Optax has no {kind!r}: {nearest(str(kind), known)}")
    try:
        return known[kind](**parts)
    except Exception as error:  # Optax has no one class of its own for what it refuses
        raise SpecError(f"{where}: optax.{kind} cannot be made of {parts!r:.120}: {error}") from None


def _functions() -> dict[str, Any]:
    """What Optax offers, by its name."""
    import optax
    import optax.contrib

    places = {"": optax, "contrib.": optax.contrib}
    return {
        prefix + name: part
        for prefix, place in places.items()
        for name, part in vars(place).items()
        if inspect.isfunction(part) and not name.startswith("_")
    }


def said_of(value: Any) -> Any:
    """What plain data say of it: the recipe, or of an object a digest of its code and of all that it holds."""
    if value is None or isinstance(value, Recipe):
        return value
    if type(value) is tuple:
        return [said_of(part) for part in value]
    return {"code": digest_if_told(value)}


def codes_of(value: Any, where: str) -> Iterator[str]:
    """The digest of an object, none of a recipe; `Untold` where there is none to be had."""
    for part in value if type(value) is tuple else (value,):
        if part is not None and not isinstance(part, Recipe):
            yield code_of(part, where)


def makers_of(transformation: Any) -> list[str]:
    """The names of the functions whose states a transformation has: what is left of it without its numbers."""
    found: dict[int, Any] = {}
    _collect(transformation.init, found)
    return [function.__qualname__.partition(".<locals>")[0] for function in found.values()]


def _collect(thing: Any, found: dict[int, Any]) -> None:
    """Add the functions in a thing, and those that they refer to from where they were made."""
    if isinstance(thing, Mapping):
        thing = tuple(thing.values())
    if inspect.ismethod(thing):
        thing = (thing.__func__, *vars(thing.__self__).values())
    if isinstance(thing, tuple | list):
        for part in thing:
            _collect(part, found)
    elif inspect.isfunction(thing) and id(thing) not in found:
        found[id(thing)] = thing
        _collect(tuple(inspect.getclosurevars(thing).nonlocals.values()), found)
