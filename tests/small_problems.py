"""Small problems that the tests of flows share, and SciPy's integrator on their gradient."""

from __future__ import annotations

import jax
import numpy as np
from jax.flatten_util import ravel_pytree
from scipy.integrate import solve_ivp

from afterfit._training.experiment import Experiment
from afterfit._training.train import prepare
from afterfit.dynamics import GradientFlow
from afterfit.inits import Gaussian
from afterfit.penalties import NoPenalty
from afterfit.tasks import Arrays

RNG = np.random.default_rng(1)
X = RNG.standard_normal((4, 7))
Y = RNG.standard_normal(4)
LABELS = np.sign(X @ RNG.standard_normal(7))


def task(loss: str = "squared", X=X, Y=Y):
    if loss == "squared":
        return Arrays(X, Y, X, Y, reduction="half_sum")
    return Arrays(X, LABELS, X, LABELS, loss_name=loss)


def posed(model, init=None, penalty=None, task=task(), seed=0):
    """A problem and its initial parameters, as a run would have them."""
    experiment = Experiment(
        task=task,
        model=model,
        dynamics=GradientFlow(1.0),
        penalty=penalty or NoPenalty(),
        init=init or Gaussian(0.5),
        seed=seed,
    )
    return prepare(experiment)


def reference(problem, params, until):
    """The parameters at `until` by SciPy's eighth-order method on the problem's gradient."""
    start, tree = ravel_pytree(params)
    gradient = jax.jit(lambda z: ravel_pytree(problem.gradient(tree(z)))[0])
    solution = solve_ivp(
        lambda t, z: -np.asarray(gradient(z)), (0, until), np.asarray(start), method="DOP853", rtol=1e-11, atol=1e-13
    )
    return solution.y[:, -1]
