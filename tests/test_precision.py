"""Single precision: all of a step is in it, flows are followed in it as far as it goes, and where it is not enough."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.extend.core import jaxprs_in_params

import afterfit as af
from afterfit import SpecError
from afterfit._training.batches import numbers_as_arrays
from afterfit._training.train import prepare

PAIRS = af.tasks.ModularArithmetic(5, 0.5)
LASSO = {
    "task": af.tasks.SparseRecovery(20, 3, 12),
    "model": af.models.Linear(),
    "init": af.inits.Gaussian(1.0),
    "penalty": af.penalties.L1(1e-3),
}


def net(params, x):
    return params["W"] @ jnp.tanh(params["V"] @ x)


FUNCTION = af.models.Function(net, {"V": np.ones((4, 10)), "W": np.ones((5, 4))})


def wide(jaxpr):
    """Arrays of double precision that a program makes.

    Single numbers, such as a clock, do not count, nor what takes the precision of what it meets (JAX's weak types).
    """
    for equation in jaxpr.eqns:
        kinds = [variable.aval for variable in equation.outvars]
        if any(getattr(kind, "dtype", None) == np.float64 and kind.size > 1 and not kind.weak_type for kind in kinds):
            yield equation
        for inner in jaxprs_in_params(equation.params):
            yield from wide(inner)


@pytest.mark.parametrize(
    ("task", "model", "init"),
    [
        (PAIRS, FUNCTION, af.inits.Own()),
        (PAIRS, af.models.MLP((4,), "all", activation="gelu"), af.inits.He()),
        (PAIRS.replace(form="tokens"), af.models.EmbeddingMLP(3, 4), af.inits.He()),
        (af.tasks.SparseClassification(8, 6, 3, precision="single"), af.models.DiagonalNet(), af.inits.Constant(1.0)),
        (af.tasks.MatrixCompletion(4, 4, 1, observed=9, precision="single"), af.models.Linear(), af.inits.Gaussian()),
    ],
)
@pytest.mark.parametrize(
    "dynamics",
    [
        af.dynamics.AdamW(1e-3, 5),
        af.dynamics.SGD(1e-3, 5, 4, momentum=0.9, schedule={"kind": "constant_schedule", "value": 0.5}),
    ],
)
def test_nothing_of_a_step_in_single_precision_is_computed_in_double(task, model, init, dynamics):
    with jax.enable_x64(True):
        problem, params = prepare(af.Experiment(task, model, dynamics, af.penalties.L2(0.1), init))
        made = numbers_as_arrays(dynamics, params)
        key = jax.random.key(0)
        step = jax.make_jaxpr(lambda p: made.step(problem, p, made.remember(problem, p), key))(params).jaxpr
        assert all(leaf.dtype == jnp.float32 for leaf in jax.tree.leaves(params))
    assert step.eqns
    assert not list(wide(step))


def test_the_l1_path_is_the_same_in_single_precision_to_its_digits():
    flow = af.dynamics.GradientFlow(1e5)
    double, single = (
        af.train(**LASSO | {"task": LASSO["task"].replace(precision=precision)}, dynamics=flow)
        for precision in ("double", "single")
    )
    assert single.method == double.method
    assert single.method.startswith("path")
    assert single.params["weights"].dtype == np.float32
    assert np.allclose(single.curves.weights, double.curves.weights, rtol=0, atol=1e-6)  # weights of size 1


def test_what_is_finer_than_single_precision_is_refused():
    task = LASSO["task"].replace(precision="single")
    linear = {**LASSO, "task": task, "penalty": af.penalties.L2(1e-3)}
    with pytest.raises(SpecError, match=r"rtol=1e-09 a step is less than single precision can tell: choose 1e-06"):
        af.train(**linear, dynamics=af.dynamics.GradientFlow(1.0, rtol=1e-9))
    with pytest.raises(SpecError, match=r'RiemannianFlow keeps to parameters.*precision="double"'):
        af.train(**linear, dynamics=af.dynamics.RiemannianFlow(1.0))


def test_weight_decay_below_half_a_digit_does_nothing_in_single_precision():
    """The example of docs/concepts.md: at lr·β = 2·10⁻⁸ a step takes less off a weight than single precision can."""
    decay = {**LASSO, "penalty": af.penalties.L2(2e-7)}
    descent = af.dynamics.GradientDescent(0.1, 400_000)
    fell = {}
    for precision in ("double", "single"):
        task = decay["task"].replace(scale=1.0, precision=precision)
        run = af.train(**decay | {"task": task}, dynamics=descent, observations=20)
        late = run.curves.norm_l2.sel(time=slice(5e3, None)).values
        fell[precision] = 1 - late[-1] / late[0]
    assert fell["single"] == 0
    assert fell["double"] > 1e-3
