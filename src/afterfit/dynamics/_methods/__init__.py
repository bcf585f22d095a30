"""Ways to follow a gradient flow, by name. A new one is a `Method` in a file of its own, listed here."""

from afterfit.dynamics._methods._base import Flow, Method
from afterfit.dynamics._methods.dual import Dual
from afterfit.dynamics._methods.exact import Exact
from afterfit.dynamics._methods.explicit import Explicit
from afterfit.dynamics._methods.implicit import Implicit
from afterfit.dynamics._methods.path import Path
from afterfit.dynamics._methods.stabilised import Stabilised

__all__ = ["METHODS", "Flow", "Method"]

METHODS: dict[str, type[Method]] = {
    method.name: method for method in (Exact, Path, Dual, Explicit, Implicit, Stabilised)
}
