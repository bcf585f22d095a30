"""A function of the user's that cannot be trained is refused in a sentence, without a traceback through JAX."""

from __future__ import annotations

import traceback

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import afterfit as af
from afterfit import SpecError

W = np.linspace(-1, 1, 5)
X = np.random.default_rng(0).standard_normal((8, 5))
WRONG = np.flatnonzero(X[:, 0] < 0)
CALLS = [0]


def train(function):
    task = af.tasks.Arrays(X, X @ W, X, X @ W, loss_name="squared", fit=1e-2, generalise=0.1)
    model = af.models.Function(function, {"w": W})
    return af.train(task=task, model=model, dynamics=af.dynamics.GradientDescent(lr=1e-3, steps=3), observations=2)


def counted(params, x):
    CALLS[0] += 1
    return CALLS[0] * params["w"] @ x


def noisy(params, x):
    return params["w"] @ x + jnp.asarray(np.random.standard_normal(5)) @ x  # noqa: NPY002


def branching(params, x):
    if params["w"][0] > 0:
        return params["w"] @ x
    return -params["w"] @ x


@pytest.mark.parametrize(
    ("function", "said"),
    [
        (lambda p, x: jnp.log(p["w"]) @ x, "not finite at its initial parameters, on 8 of 8 training examples"),
        (
            lambda p, x: jnp.where(x[0] < 0, jnp.nan, p["w"] @ x),
            rf"on {WRONG.size} of 8 training examples \(the first is number {WRONG[0]}\)",
        ),
        (lambda p, x: p["w"] @ x / 0.0, "not finite"),
        (lambda p, x: jnp.sqrt(jnp.sum((p["w"] - W) ** 2)) * x[0], "derivative is not a number"),
        (lambda p, x: p["w"] * x, r"outputs of shape \(8, 5\), but the task needs \(8,\)"),
        (lambda p, x: jnp.round(p["w"] @ x).astype(int), "outputs of type int.* no gradient"),
        (lambda p, x: p["w"][:3] @ x, r"cannot be evaluated: TypeError: .*test_own_functions.py, line \d+"),
        (lambda p, x: p["v"] @ x, r"cannot be evaluated: KeyError: 'v', in test_own_functions.py, line \d+"),
        (lambda p, x: np.dot(p["w"], np.sin(np.asarray(x))), "write it with jax.numpy"),
        (branching, "write it with jax.numpy, and jnp.where in place of `if`.*if params"),
        (counted, "something else when it is called a second time"),
        (noisy, "something else when it is called a second time"),
    ],
)
def test_what_cannot_be_trained_is_refused_in_a_sentence(function, said):
    with pytest.raises(SpecError, match=said) as refused:
        train(function)
    shown = "".join(traceback.format_exception(refused.value))
    assert "site-packages/jax" not in shown
    assert len(str(refused.value).splitlines()) == 1


@pytest.mark.parametrize(
    "function",
    [
        lambda p, x: p["w"] @ x,
        lambda p, x: jnp.sum(jax.nn.relu(p["w"] * x)) + jnp.asarray(np.arange(5.0)) @ p["w"],  # a kink, a constant
    ],
)
def test_what_can_be_trained_is_not(function):
    assert train(function).status == "finished"


# ------------------------------------------------------------------------- schedules, penalties, steps and classes


class Branching(af.penalties.Penalty):
    def value(self, params):
        size = jnp.sum(params["w"] ** 2)
        return size if size > 1 else 0 * size


class Vector(af.penalties.Penalty):
    def value(self, params):
        return params["w"] ** 2


class Lost(af.dynamics.Optimiser):
    def update(self, gradient, memory, params):
        return gradient["w"], memory


class Grows(af.dynamics.Discrete):
    def step(self, problem, params, memory, key):
        return jax.tree.map(lambda p: jnp.concatenate([p, p]), params), memory


class Mixing(af.models.Model):
    """Says what is not so."""

    responsive, separate = True, True
    centre: bool = True
    scale: float = 1.0

    def parameters(self, signature):
        return {"w": af.models.Parameter(signature.inputs)}

    def __call__(self, params, inputs):
        outputs = inputs @ params["w"] / self.scale
        return outputs - jnp.mean(outputs) if self.centre else outputs


def halving(step):
    return 0.5 if step > 10 else 1.0


def with_numpy(step):
    return np.cos(step * 0.01)


def several(step):
    return jnp.ones(3)


GD = af.dynamics.GradientDescent


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"dynamics": GD(1e-3, 3, schedule=halving)}, "the schedule cannot be evaluated.*jnp.where in place of `if`"),
        ({"dynamics": GD(1e-3, 3, schedule=with_numpy)}, "the schedule cannot be evaluated.*jax.numpy.*np.cos"),
        ({"dynamics": GD(1e-3, 3, schedule=several)}, r"the schedule must be one number, got .*shape=\(3,\)"),
        ({"penalty": Branching(0.1)}, "the penalty cannot be evaluated.*jnp.where in place of `if`.*if size > 1"),
        ({"penalty": Vector(0.1)}, r"the penalty must be one number, got .*shape=\(5,\)"),
        ({"dynamics": Lost(1e-3, 3)}, "a step of Lost cannot be evaluated: "),
        ({"dynamics": Grows(1e-3, 3)}, "a step of Grows cannot be evaluated: "),
        ({"model": Mixing()}, "says separate = True, but the output of an example depends on the others"),
        ({"model": af.models.Difference(Mixing())}, "says separate = True, but"),
        ({"model": Mixing(centre=False, scale=0.0)}, "not finite at its initial parameters"),
    ],
)
def test_what_is_not_as_it_says_is_refused_in_a_sentence(changed, said):
    task = af.tasks.Arrays(X, X @ W, X, X @ W)
    given = {"task": task, "model": Mixing(centre=False), "dynamics": GD(1e-3, 3), "init": af.inits.Gaussian(1.0)}
    with pytest.raises(SpecError, match=said) as refused:
        af.train(**given | changed, observations=2)
    assert "site-packages/jax" not in "".join(traceback.format_exception(refused.value))
    assert len(str(refused.value).splitlines()) == 1
