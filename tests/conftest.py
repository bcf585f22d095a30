"""Shared by all tests: double precision as a context, reproducible Hypothesis, trees as plain vectors."""

from __future__ import annotations

import os
import signal
import tempfile
from html.parser import HTMLParser

# Compiled programs are shared by the workers of pytest-xdist and by every process that a test starts: many train the
# same few models, and compiling them is most of their time. For one session only, so that no test meets an old one.
if "JAX_COMPILATION_CACHE_DIR" not in os.environ:
    COMPILED = tempfile.TemporaryDirectory(prefix="afterfit-compiled-", ignore_cleanup_errors=True)
    os.environ["JAX_COMPILATION_CACHE_DIR"] = COMPILED.name
    os.environ["JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS"] = "0.05"

# XLA's newer way to write loops takes twice as long to compile, for steps that are up to twice as quick: programs that
# run for moments are better off with the older one. XLA_FLAGS=--xla_cpu_use_fusion_emitters=true has users' own.
if "--xla_cpu_use_fusion_emitters" not in os.environ.get("XLA_FLAGS", ""):
    os.environ["XLA_FLAGS"] = f"{os.environ.get('XLA_FLAGS', '')} --xla_cpu_use_fusion_emitters=false".strip()

# The workers of pytest-xdist have the cores already: threads of OpenBLAS would only wait for one another, busily.
os.environ["OPENBLAS_NUM_THREADS"] = "1"  # of what is not loaded yet, and of every process that a test starts
# So would those of XLA. What looks for deadlocks starts processes with as many as users have: `users_threads`.
os.environ.setdefault("NPROC", "1")

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import threadpoolctl
from hypothesis import settings

threadpoolctl.threadpool_limits(1, user_api="blas")  # of what a plugin of pytest has loaded before

# The same examples every time, and no deadline: the first call of a compiled function takes seconds.
settings.register_profile("afterfit", derandomize=True, deadline=None)
settings.load_profile("afterfit")


def users_threads() -> dict[str, str]:
    """The environment for a process with as many threads of XLA's as a user's has."""
    return {name: value for name, value in os.environ.items() if name != "NPROC"}


# Seconds within which something comes that is to come at once, and would else take minutes or years. How quick it is on
# quiet cores is for benchmarks: here another worker, or a neighbour, may have the cores.
AT_ONCE = 20.0


@pytest.fixture(scope="module")
def x64():
    """Double precision for one test module. `train` must not need it, so its tests go without."""
    with jax.enable_x64(True):
        yield


@pytest.fixture
def rules_forgotten():
    """Forget the rules that a test defines: later tests should not meet them."""
    from afterfit import Reader, dynamics, theory

    families = (theory.Clock, theory.Limit, theory.Theorem, theory.Route, dynamics.Method, Reader)
    before = [dict(family._known) for family in families]
    yield
    for family, known in zip(families, before, strict=True):
        family._known.clear()
        family._known.update(known)


@pytest.fixture
def ctrl_c():
    """Python's own way with Ctrl-C: a background shell, and a worker of pytest-xdist, ignore it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


class Cells(HTMLParser):
    """The text of every cell of every table in a piece of HTML, and the captions."""

    def __init__(self, page):
        super().__init__()
        self.cells, self.captions, self.inside = [], [], None
        self.feed(page)

    def handle_starttag(self, tag, attrs):
        self.inside = {"td": self.cells, "caption": self.captions}.get(tag, self.inside)
        if tag in ("td", "caption"):
            self.inside.append("")

    def handle_endtag(self, tag):
        self.inside = None if tag in ("td", "caption") else self.inside

    def handle_data(self, data):
        if self.inside is not None:
            self.inside[-1] += data


def as_jax(tree):
    """The arrays of a tree as JAX arrays."""
    return jax.tree.map(jnp.asarray, tree)


def flat(tree) -> np.ndarray:
    """All numbers of a tree in one vector, in the order of its leaves."""
    return np.concatenate([np.ravel(np.asarray(leaf)) for leaf in jax.tree.leaves(tree)])


def unflat(vector: np.ndarray, like):
    """The inverse of `flat`: a tree of the shape of `like`."""
    leaves, structure = jax.tree.flatten(like)
    cuts = np.cumsum([np.size(leaf) for leaf in leaves])[:-1]
    pieces = np.split(np.asarray(vector), cuts)
    return jax.tree.unflatten(
        structure, [piece.reshape(np.shape(leaf)) for piece, leaf in zip(pieces, leaves, strict=True)]
    )


def random_like(tree, rng: np.random.Generator, scale: float = 1.0):
    """Standard Gaussian numbers in the place of anything that has a shape."""
    return jax.tree.map(lambda leaf: scale * rng.standard_normal(leaf.shape), tree)


def slope(f, tree, step: float = 1e-6) -> np.ndarray:
    """The gradient of f(tree) by central differences; the error is about step² + 1e-16/step = 1e-10."""
    at = flat(tree)
    found = np.empty_like(at)
    for k in range(len(at)):
        aside = step * max(1.0, abs(at[k]))
        up, down = at.copy(), at.copy()
        up[k] += aside
        down[k] -= aside
        found[k] = (float(f(unflat(up, tree))) - float(f(unflat(down, tree)))) / (2 * aside)
    return found
