"""Fig. 3 of Boursier et al.: its setting is the paper's, and what is computed of univariate nets is what it says."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from afterfit import papers
from afterfit.papers._measure import slope_variation
from afterfit.papers.boursier2025.relu import Draw, arrived
from afterfit.papers.boursier2025.univariate import (
    Net,
    kinks,
    net_of,
    penalised,
    penalised_slopes,
    sharpness,
)


def test_paper_scale_is_the_ledger_s_setting():
    experiments = papers.find("boursier2025/fig3").experiments("paper")
    shown = next(iter(experiments.values())).to_dict()
    assert (shown["task"]["kind"], shown["task"]["n"], shown["task"]["teacher_units"]) == ("ReLURegression", 10, 3)
    assert (shown["model"]["kind"], shown["model"]["hidden"], shown["model"]["biases"]) == ("MLP", [100], "hidden")
    assert (shown["penalty"]["kind"], shown["penalty"]["strength"]) == ("L2", 1e-3)
    assert (shown["init"]["kind"], shown["init"]["scale"]) == ("Gaussian", 2.0)  # variance 4
    assert shown["dynamics"]["until"] == 1e5
    data = experiments["descent"].draw()
    assert data.inputs.shape == (10, 1)
    assert np.all(np.abs(data.inputs) <= 2)
    free = [experiment for name, experiment in experiments.items() if name.startswith("free ")]
    assert {experiment.to_dict()["penalty"]["strength"] for experiment in free} == {0}
    assert len(free) == 40  # as many as draws: every claim is on all of them


@pytest.fixture
def examples():
    rng = np.random.default_rng(7)
    x = np.sort(rng.uniform(-2, 2, 8))
    return x, np.maximum(x - 0.3, 0) - 0.5 * np.maximum(-x - 1, 0)


def _random_net(width, seed=0):
    return Net(*np.random.default_rng(seed).standard_normal((3, width)))


def test_a_net_is_what_the_model_computes():
    experiment = next(iter(papers.find("boursier2025/fig3").experiments("quick").values()))
    run = papers.run_all({"short": experiment.set({"dynamics.until": 0.01, "checkpoints": 0})}, "", False)["short"]
    x = run.data.test_inputs
    with jax.enable_x64(True):
        outputs = run.experiment.model(jax.tree.map(jnp.asarray, run.params), jnp.asarray(x))
    np.testing.assert_allclose(net_of(run.params)(x[:, 0]), outputs, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(np.sqrt(net_of(run.params).squared_norm), run.curves["norm_l2"][-1], rtol=1e-9)


def test_a_draw_is_measured_as_its_run_was(monkeypatch):
    """Losses, errors, kinks and the penalised loss of a draw, from what the run itself recorded."""
    experiment = next(iter(papers.find("boursier2025/fig3").experiments("quick").values()))
    run = papers.run_all({"short": experiment.set({"dynamics.until": 1.0, "checkpoints": [0.0, 0.1, 1.0]})}, "", False)
    draw, curves = Draw(run["short"]), run["short"].curves
    np.testing.assert_array_equal(draw.net(0.09).u, draw.nets[1].u)
    assert draw.count(np.inf) == draw.count(1.0) == len(draw.kinks(draw.end))
    np.testing.assert_allclose(np.sqrt(draw.left("train_loss")), curves["train_error"], rtol=1e-6)
    np.testing.assert_allclose(np.sqrt(draw.left("test_loss")), curves["test_error"], rtol=1e-6)
    assert draw.error(draw.end) == pytest.approx(float(curves["test_error"][-1]), rel=1e-6)
    penalised_loss = float(curves["train_loss"][-1]) + 1e-3 / 2 * float(curves["norm_l2"][-1]) ** 2
    assert (1 + draw.excess(draw.end)) * draw.program.value == pytest.approx(penalised_loss, rel=1e-6)
    assert arrived({0: draw}) == {}  # t = 1 is long before the least
    u, v, b = draw.program.net
    balanced = Net(np.sign(u) * np.sqrt(np.abs(u)), v * np.sqrt(np.abs(u)), b * np.sqrt(np.abs(u)))
    monkeypatch.setattr(Draw, "end", balanced)
    assert list(arrived({0: draw})) == [0]


def test_kinks_are_where_the_slope_of_the_function_jumps():
    net = Net(np.array([1.0, -2.0, 0.5, 3.0]), np.array([2.0, -1.0, 1.0, 1.0]), np.array([1.0, 0.5, 5.0, 0.0]))
    found = kinks(net, 1e-9)
    assert [kink.place for kink in found] == pytest.approx([-0.5, 0.0, 0.5])  # that at −5 is outside
    for place, change in found:
        left, middle, right = net(place + 1e-3 * np.array([-1.0, 0.0, 1.0]))
        assert change == pytest.approx((right - 2 * middle + left) / 1e-3)
    assert [kink.place for kink in kinks(net, 2.5)] == [0.0]


def test_units_side_by_side_make_one_kink_and_may_cancel():
    places = np.array([0.0, 0.04, 0.08, 1.0, 1.01])
    net = Net(np.array([1.0, 1.0, 1.0, 1.0, -1.0]), np.ones(5), -places)
    assert kinks(net, 0.1) == [(pytest.approx(0.02), pytest.approx(2.0)), (pytest.approx(0.08), pytest.approx(1.0))]


def test_the_program_is_a_least_net(examples):
    """Its bound says so for every width; here also by descent from its own solution, and against random nets."""
    x, y = examples
    program = penalised(x, y, 1e-2)
    assert 0 <= 1 - program.bound / program.value <= 1e-5
    # Balanced, its net has the value as F + (λ/2)‖w‖².
    scale = np.sqrt(np.abs(program.net.u))
    balanced = Net(np.sign(program.net.u) * scale, scale * program.net.v, scale * program.net.b)
    value = np.mean((balanced(x) - y) ** 2) / 2 + 1e-2 / 2 * balanced.squared_norm
    assert value == pytest.approx(program.value, rel=1e-9)
    for seed in range(20):
        other = _random_net(6, seed)
        near = Net(*(np.concatenate([a, 1e-2 * b]) for a, b in zip(balanced, other, strict=True)))
        for net in (other, near):
            assert np.mean((net(x) - y) ** 2) / 2 + 1e-2 / 2 * net.squared_norm >= program.bound


def test_the_program_is_the_weighted_variation_of_the_slope(examples):
    """The same minimum by another program: kinks on a grid of the line, each for √(1+c²), and a constant for 1."""
    import cvxpy as cp

    x, y = examples
    c = np.concatenate([np.linspace(-40, 40, 8001), x])
    columns = np.concatenate(
        [np.maximum(x[:, None] - c, 0), np.maximum(c - x[:, None], 0), np.ones((len(x), 1))], axis=1
    )
    price = np.append(np.tile(np.sqrt(1 + c**2), 2), 1.0)
    a = cp.Variable(columns.shape[1])
    goal = cp.sum_squares(columns @ a - y) / (2 * len(x)) + 1e-2 * (price @ cp.abs(a))
    value = cp.Problem(cp.Minimize(goal)).solve(solver="CLARABEL")
    assert penalised(x, y, 1e-2).value == pytest.approx(value, rel=1e-4)


def test_a_finer_grid_has_the_same_value(examples):
    x, y = examples
    coarse, fine = (penalised(x, y, 1e-3, directions=directions).value for directions in (1000, 8000))
    assert fine <= coarse <= fine * (1 + 1e-5)


def test_without_the_biases_a_constant_is_free(examples):
    x, y = examples
    net, moved = penalised_slopes(x, y, 1e-2), penalised_slopes(x, y + 3, 1e-2)
    np.testing.assert_allclose(moved(x), net(x) + 3, atol=1e-5)
    assert np.max(np.abs(penalised(x, y + 3, 1e-2).net(x) - penalised(x, y, 1e-2).net(x) - 3)) > 1e-3


def test_the_variation_of_a_slope():
    x = np.linspace(-2, 2, 401)
    assert slope_variation(x, np.maximum(x, 0) - 2 * np.maximum(-x - 1.5, 0)) == pytest.approx(3.0)


def test_sharpness_is_the_hessian_s(examples):
    x, y = examples
    net = _random_net(9)

    def loss(flat):
        u, v, b = flat.reshape(3, -1)
        return jnp.mean((jax.nn.relu(jnp.outer(x, v) + b) @ u - y) ** 2) / 2

    with jax.enable_x64(True):
        hessian = jax.hessian(loss)(jnp.asarray(np.concatenate(net)))
    assert sharpness(net, x, y) == pytest.approx(np.linalg.eigvalsh(hessian)[-1], rel=1e-9)
