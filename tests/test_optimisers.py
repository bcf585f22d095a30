"""Optimisers against Optax's own loop written out, NumPy loops of the formulas, and what must hold of every step."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from conftest import flat

import afterfit as af
from afterfit.dynamics import SGD, Adam, AdamW, GradientDescent, Optax
from afterfit.models import Function, Linear
from afterfit.penalties import L2
from afterfit.tasks import Arrays

RNG = np.random.default_rng(0)
X, Y, W0 = RNG.standard_normal((12, 6)), RNG.standard_normal(12), RNG.standard_normal(6)
V0, U0 = RNG.standard_normal((4, 6)), RNG.standard_normal(4)
TASK = Arrays(X, Y, X, Y, reduction="half_sum")
COSINE = {"kind": "cosine_decay_schedule", "init_value": 1.0, "decay_steps": 30}


def trained(dynamics, model=None, penalty=None, task=TASK, init=None):
    if model is None:
        model, init = Linear(), af.inits.Constant(1.0, shape=tuple(W0))
    return af.train(
        task=task, model=model, dynamics=dynamics, penalty=penalty, init=init, observations=5, progress=False
    )


def weights(dynamics, penalty=None):
    return np.asarray(trained(dynamics, penalty=penalty).params["weights"])


# Any transformation of Optax's.


def net(params, x):
    return params["u"] @ jnp.tanh(params["V"] @ x)


def orthogonal_gradient():
    """The gradient without its part along the parameters, at its old size (Prieto et al. 2025, "⊥Grad")."""

    def project(g, w):
        rest = g - jnp.sum(g * w) / jnp.sum(w * w) * w
        return rest * (jnp.linalg.norm(g) / jnp.linalg.norm(rest))

    return optax.stateless(lambda gradient, params: jax.tree.map(project, gradient, params))


def by_hand(optimiser, steps, decay=0.0):
    """Optax's loop, as its documentation has it, on a tanh network with weight decay in the loss."""

    def objective(params):
        outputs = jnp.tanh(X @ params["V"].T) @ params["u"]
        return 0.5 * jnp.sum((outputs - Y) ** 2) + 0.5 * decay * sum(jnp.sum(p**2) for p in jax.tree.leaves(params))

    with jax.enable_x64(True):
        params = {"V": jnp.asarray(V0), "u": jnp.asarray(U0)}
        state = optimiser.init(params)

        @jax.jit
        def step(params, state):
            updates, state = optimiser.update(jax.grad(objective)(params), state, params)
            return optax.apply_updates(params, updates), state

        for _ in range(steps):
            params, state = step(params, state)
        return flat(params)


def lion(rate=1e-3):
    return optax.lion(rate, b1=0.8, weight_decay=0.1)


@pytest.mark.parametrize(
    ("optimiser", "table"),
    [
        (lion(), {"kind": "lion", "learning_rate": 1e-3, "b1": 0.8, "weight_decay": 0.1}),
        (optax.contrib.muon(1e-2), {"kind": "contrib.muon", "learning_rate": 1e-2}),
        (optax.sgd(1e-2, momentum=0.9, nesterov=True),) * 2,
        (
            optax.chain(optax.trace(0.9), optax.scale_by_sign(), optax.scale(-1e-3)),  # Signum
            [{"kind": "trace", "decay": 0.9}, {"kind": "scale_by_sign"}, {"kind": "scale", "step_size": -1e-3}],
        ),
        (optax.chain(orthogonal_gradient(), optax.sgd(1e-2)),) * 2,
        (optax.adam(optax.exponential_decay(1e-2, 5, 0.5)),) * 2,
        (
            optax.adam(optax.piecewise_constant_schedule(1e-2, {7: 0.1})),
            {
                "kind": "adam",
                "learning_rate": {
                    "kind": "piecewise_constant_schedule",
                    "init_value": 1e-2,
                    "boundaries_and_scales": {7: 0.1},
                },
            },
        ),
    ],
    ids=["lion", "muon", "nesterov", "signum", "orthogonal", "decaying adam", "stepwise adam"],
)
def test_a_transformation_is_optax_own_loop(optimiser, table):
    # To rounding: XLA orders the sums of the two programs as it likes. The sign of a sum of size 1e-17 may then differ,
    # which no step here meets.
    expected = by_hand(optimiser, 25, decay=0.3)
    for transformation in (optimiser, table):
        run = trained(Optax(transformation, steps=25), Function(net, {"V": V0, "u": U0}), L2(0.3))
        np.testing.assert_allclose(flat(run.params), expected, rtol=1e-11, atol=1e-13)
        assert run.curves.time.values[-1] == pytest.approx(25)
    assert np.max(np.abs(by_hand(optimiser, 25) - expected)) > 1e-4, "the penalty is seen"


def test_an_orthogonal_gradient_makes_no_step_along_the_parameters():
    before = W0
    for steps in (1, 2, 3):
        after = weights(Optax(orthogonal_gradient(), steps=steps, lr=1e-2))
        gradient = X.T @ (X @ before - Y)
        # ‖w + d‖² = ‖w‖² + ‖d‖² where d ⊥ w, and d has the size of the gradient.
        assert np.sum(after**2) == pytest.approx(np.sum(before**2) + 1e-4 * np.sum(gradient**2), rel=1e-12)
        before = after


def test_lr_multiplies_what_comes_out():
    unit = {"kind": "lion", "learning_rate": 1.0, "weight_decay": 0.1}
    run = trained(Optax(unit, lr=1e-3, steps=20))
    np.testing.assert_allclose(run.params["weights"], weights(Optax({**unit, "learning_rate": 1e-3}, steps=20)), 1e-12)
    assert run.curves.time.values[-1] == pytest.approx(20 * 1e-3)


def test_a_state_that_is_no_number_ends_the_run():
    def count_roots(gradient, state, params=None):
        return jax.tree.map(lambda g: -1e-3 * g, gradient), jnp.sqrt(3.0 - (3.0 - state) - 0.5)

    lost = optax.GradientTransformation(lambda params: jnp.zeros(()), count_roots)
    run = trained(Optax(lost, steps=10))
    assert run.status == "diverged"
    assert "what the optimiser remembers is no longer a number at step 1" in run.message
    assert np.isfinite(run.curves.train_loss.values).all()


def test_a_transformation_is_named_by_all_that_is_in_it():
    def id(transformation, **settings):
        return af.Experiment(TASK, Linear(), Optax(transformation, steps=5, **settings)).id

    assert id(lion()) == id(lion())
    others = [lion(2e-3), optax.contrib.muon(1e-3), optax.lion(1e-3), optax.chain(orthogonal_gradient(), lion())]
    others += [lion(optax.linear_schedule(1e-3, 0, 5)), lion(optax.linear_schedule(1e-3, 0, 6))]
    assert len({id(lion()), *map(id, others)}) == 7
    unnamed = af.Experiment(TASK, Linear(), GradientDescent(0.1, 5, schedule=lambda step: 1.0))
    with pytest.raises(af.SpecError, match="the schedule: a lambda has no name"):
        unnamed.id  # noqa: B018
    with pytest.raises(af.SpecError, match="exists in Python only"):
        af.dynamics.Dynamics.from_dict(Optax(lion(), steps=5).to_dict())


def test_settings_of_a_table_can_be_set_by_dotted_names():
    of = af.Experiment(TASK, Linear(), Optax({"kind": "lion", "learning_rate": 1e-3}, steps=5))
    to = of.set({"dynamics.transformation.learning_rate": 2e-3, "dynamics.schedule": COSINE})
    to = to.set({"dynamics.schedule.init_value": 0.5})
    assert to.dynamics == Optax(
        {"kind": "lion", "learning_rate": 2e-3}, steps=5, schedule={**COSINE, "init_value": 0.5}
    )
    other = of.set({"dynamics.transformation.kind": "adam", "dynamics.transformation.learning_rate": 0.1})
    assert other.dynamics.transformation == {"kind": "adam", "learning_rate": 0.1}
    assert len({of.id, to.id, other.id}) == 3


# Mini-batches, momentum and schedules.


def test_momentum_and_schedule_against_numpy():
    steps, lr, mu = 20, 0.01, 0.8
    w, v, time = W0, np.zeros(6), 0.0
    for k in range(steps):
        size = lr * 0.5 * (1 + np.cos(np.pi * k / 30))
        v = mu * v + X.T @ (X @ w - Y) + 0.3 * w
        w, time = w - size * v, time + size
    run = trained(GradientDescent(lr, steps, momentum=mu, schedule=COSINE), penalty=L2(0.3))
    np.testing.assert_allclose(run.params["weights"], w, rtol=1e-12)
    assert run.curves.time.values[-1] == pytest.approx(time, rel=1e-12), "training time is the sum of step sizes"
    plain = GradientDescent(lr, steps)
    assert plain.follows_flow
    for changed in ({"momentum": mu}, {"schedule": COSINE}, {"batch": 3}):
        assert not plain.replace(**changed).follows_flow, "theory of the flow does not speak of it"


@pytest.mark.parametrize("dynamics", [Adam(0.05, 20), AdamW(0.05, 20, weight_decay=0.3), SGD(0.01, 20, 5)])
def test_batches_and_schedules_are_the_same_for_every_optimiser(dynamics):
    # The batches that SGD sees are checked elsewhere. Here: each optimiser is the same transformation of Optax's.
    name, more = type(dynamics).__name__.lower(), {}
    if name == "adamw":
        more = {"weight_decay": dynamics.weight_decay}
    rate = optax.cosine_decay_schedule(dynamics.lr, 30)
    theirs = Optax(getattr(optax, name)(rate, **more), steps=20, batch=5)
    ours = dynamics.replace(batch=5, schedule=COSINE)
    np.testing.assert_allclose(weights(ours), weights(theirs), rtol=1e-10)
    assert np.max(np.abs(weights(ours) - weights(ours.replace(batch=12)))) > 1e-3, "batches matter"


def test_an_epoch_of_any_optimiser_is_every_example_once():
    # Of sums of gradients, ∇ᵢ = −yᵢ·xᵢ with X = I: coordinate i has moved after the batch with example i.
    eye = Arrays(np.eye(12), np.ones(12), np.eye(12), np.ones(12), reduction="sum")
    dynamics = Optax(optax.sign_sgd(1e-3), steps=3, batch=4)
    init = af.inits.Gaussian(1e-9)
    for k in (1, 2, 3):
        moved = trained(dynamics.replace(steps=k), Linear(), None, eye, init).params["weights"]
        np.testing.assert_allclose(np.sort(moved), [0.0] * (12 - 4 * k) + [1e-3] * (4 * k), atol=1e-8)


def test_runs_keep_their_names_where_nothing_new_is_asked_for():
    assert GradientDescent(0.1, 7).to_dict() == {"kind": "GradientDescent", "lr": 0.1, "steps": 7}
    assert SGD(0.1, 7).to_dict() == {"kind": "SGD", "lr": 0.1, "steps": 7, "batch": 256}
    adam = {"kind": "Adam", "lr": 0.1, "steps": 7, "b1": 0.9, "b2": 0.999, "eps": 1e-8}
    assert Adam(0.1, 7).to_dict() == adam


def test_an_optimiser_of_ones_own_has_batches_and_schedules():
    class Sign(af.dynamics.Optimiser):
        def update(self, gradient, memory, params):
            return jax.tree.map(lambda g: -self.lr * jnp.sign(g), gradient), memory

    ours = weights(Sign(1e-2, 20, batch=5, schedule=COSINE))
    theirs = weights(Optax({"kind": "sign_sgd", "learning_rate": 1e-2}, steps=20, batch=5, schedule=COSINE))
    np.testing.assert_allclose(ours, theirs, rtol=1e-12)


class Plain(af.dynamics.Optimiser):
    def update(self, gradient, memory, params):
        return jax.tree.map(lambda g: -self.lr * g, gradient), memory


def halving(step):
    return 0.5 ** (step / 100)


def quartering(step):
    return 0.25 ** (step / 100)


def test_an_optimiser_of_ones_own_is_named_with_the_function_that_is_its_schedule():
    def name(dynamics):
        return af.Experiment(TASK, af.models.Linear(), dynamics).id

    assert name(Plain(1e-2, 20, schedule=halving)) != name(Plain(1e-2, 20, schedule=quartering))
    with pytest.raises(af.SpecError, match="the schedule: a lambda has no name"):
        name(Plain(1e-2, 20, schedule=lambda step: 0.5))


@pytest.mark.parametrize(
    ("attempt", "message"),
    [
        (lambda: Optax({"kind": "lyon"}, steps=1), "Optax has no 'lyon': did you mean 'lion'"),
        (lambda: Optax({"kind": "lion"}, steps=1), "optax.lion cannot be made of {}: .*learning_rate"),
        (lambda: Optax({"learning_rate": 1.0}, steps=1), "does not say its kind"),
        (lambda: Optax({"kind": "lion", "learning_rate": object()}, steps=1), "must hold finite numbers"),
        (lambda: Optax(3, steps=1), "Optax needs a gradient transformation, such as .*, got 3"),
        (lambda: trained(Optax(optax.lbfgs(), steps=1)), "from gradient and parameters alone: .*value_fn"),
        (lambda: trained(Optax(optax.stateless(lambda g, p: {"weights": 1.0}), steps=1)), "updates of the shapes"),
        (lambda: GradientDescent(0.1, 1, momentum=1.0), "momentum must be at least 0 and below 1, got 1.0"),
        (lambda: Adam(0.1, 1, schedule=0.5), "schedule must be a function of the step"),
        (lambda: Adam(0.1, 1, batch=0), "batch must be 1 or more, got 0"),
        (lambda: trained(Adam(0.1, 1, batch=13)), "batch must be at most the number of examples, 12, got 13"),
        (lambda: trained(Adam(0.1, 9, schedule=optax.linear_schedule(0, 1, 9))), "Begin a warm-up above 0"),
    ],
)
def test_what_cannot_be_is_refused_before_any_work(attempt, message):
    with pytest.raises(af.SpecError, match=message):
        attempt()
