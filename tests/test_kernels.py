"""JJᵀ from single examples: that of the Jacobian written out, whatever a function makes of its parameters."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import afterfit as af
from afterfit._base import kernels
from afterfit._base.kernels import gram_of_examples
from afterfit._base.kinks import has_kinks
from afterfit._training.train import prepare
from afterfit.dynamics import _tangent as tangent
from afterfit.models._inputs import OneHot

pytestmark = pytest.mark.usefixtures("x64")


def random(*shape, seed=0):
    return np.random.default_rng([seed, *shape]).standard_normal(shape)


def places(*sizes, n=20):
    rng = np.random.default_rng(1)
    return tuple(rng.integers(0, size, n) for size in sizes)


def embedding(p, x):
    h = jax.nn.relu(p["W1"] @ jnp.prod(p["E"][x], axis=0) + p["b1"])
    return p["W2"] @ h + p["b2"]


layer = jax.jit(lambda W, h: jnp.tanh(h @ W.T))  # one program that is called twice


def residual(p, x):
    h = layer(p[0], x)
    return (h + layer(p[1], h)) @ p[2]


def sorted_values(p, x):  # an operation with a result that nobody asks for
    return jax.lax.top_k(p[0] @ x, 3)[0] @ p[1]


def padded(mode):
    return lambda p, x: jnp.sum(jnp.take(p, x, axis=0, mode=mode, fill_value=0.0).sum(0) ** 2)


# Of each function: its parameters, its examples, and whether their gradients need not be written out.
FUNCTIONS = {
    "factors": (lambda p, x: p["U"][x[0]] @ p["V"][x[1]], {"U": random(9, 5), "V": random(8, 5)}, places(9, 8), True),
    "one table twice": (lambda p, x: p[x[0]] @ p[x[1]], random(19, 5), places(19, 19), True),
    "columns": (lambda p, x: p[0][:, x[0]] @ p[1][:, 1, x[1]], [random(5, 9), random(5, 2, 8)], places(9, 8), True),
    "single entries": (lambda p, x: p[x[0], x[1]] ** 2, random(9, 8), places(9, 8), True),
    "negative places": (lambda p, x: p[x[0] - 9] @ p[-1 - x[1]], random(19, 5), places(9, 9), True),
    "take and index": (
        lambda p, x: jnp.take(p, jnp.stack(x), axis=0).prod(0).sum() + jnp.sum(p[x[0]] ** 2),
        random(47, 6),
        places(17, 17),
        True,
    ),
    "embedding": (
        embedding,
        {"E": random(17, 6), "W1": random(12, 6), "b1": random(12), "W2": random(7, 12), "b2": random(7)},
        np.stack(places(17, 17), axis=1),
        True,
    ),
    "one-hot tokens": (
        lambda p, x: OneHot(x[None], 17).through(p["first"], jax.nn.relu, p["last"])[0],
        {"first": {"weight": random(12, 34), "bias": random(12)}, "last": {"weight": random(7, 12)}},
        np.stack(places(17, 17), axis=1),
        True,
    ),
    "a product of rows": (lambda p, x: jnp.tanh(x.reshape(2, 10) @ p[0]).sum(0) @ p[1], [random(10, 40), random(40)],
                          random(15, 20), True),
    "layers": (residual, [random(30, 20), random(30, 30), random(30)], random(15, 20), True),
    "products with transposes": (lambda p, x: (jax.nn.gelu(x[None] @ p[0]) @ p[1])[0], [random(20, 30), random(30, 4)],
                                 random(15, 20), True),
    "results unused": (sorted_values, [random(30, 20), random(3)], random(15, 20), True),
    "transposed twice": (lambda p, x: p.T[x[0]] @ p.T[x[1]], random(5, 19), places(19, 19), True),
    "padding, filled in": (padded("fill"), random(30, 6), np.stack(places(34, 34, 34), axis=1), True),
    "padding, at the border": (padded("clip"), random(30, 6), np.stack(places(34, 34, 34), axis=1), True),
    "padding, promised not to be": (lambda p, x: jnp.sum(p[x].sum(0) ** 2), random(30, 6),
                                    np.stack(places(34, 34, 34), axis=1), True),
    "padding, with several axes": (
        lambda p, x: jnp.sum(jnp.sin(p.at[x[0], :, x[1]].get(mode="fill", fill_value=0.0))), random(9, 3, 8),
        places(12, 11), True),
    "one row outside": (lambda p, x: jnp.sum(p[x] ** 2), random(30, 6), places(34)[0], True),
    "small whole numbers": (padded("fill"), random(200, 2), np.stack(places(220, 220), axis=1).astype(np.uint8), True),
    "rows, and rows of the transpose": (lambda p, x: p[x[0]] @ p.T[x[1]], random(20, 20), places(20, 20), False),
    "the same, not square": (lambda p, x: jnp.sum(p[x[0]]) ** 2 + jnp.sum(p.T[x[1]] ** 2), random(30, 20),
                             places(30, 20), False),
    "a Fourier transform": (lambda p, x: jnp.sum(jnp.abs(jnp.fft.fft(x) @ p.T)), random(50, 20), random(15, 20), False),
    "rows and columns of one": (lambda p, x: p[x[0]] @ p[:, x[1]], random(9, 9), places(9, 9), False),
    "one matrix twice": (lambda p, x: jnp.tanh(p @ jnp.tanh(p @ x)) @ x, random(20, 20), random(15, 20), False),
    "diagonal": (lambda p, x: (p[0] ** 2 - p[1] ** 2) @ x, [random(20), random(20)], random(15, 20), False),
    "a loop": (lambda p, x: jax.lax.scan(lambda h, W: (jnp.tanh(W @ h), None), x, p)[0].sum(), random(3, 20, 20),
               random(5, 20), False),
    "the parameters themselves": (lambda p, x: p, random(6), random(3, 20), False),
    "no parameter": (lambda p, x: x[:2], random(6), random(3, 20), False),
}  # fmt: skip


@pytest.mark.parametrize("blocks", [1, 4])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_the_kernel_is_the_square_of_the_jacobian(name, blocks, monkeypatch):
    f, params, examples, factored = FUNCTIONS[name]
    params, examples = jax.tree.map(jnp.asarray, (params, examples))
    program = kernels._Program(f, params, jax.tree.map(lambda leaf: leaf[0], examples))
    n, written_out = len(jax.tree.leaves(examples)[0]), sum(leaf.size for leaf in jax.tree.leaves(params))
    assert (program.numbers < program.outputs * written_out) == factored
    monkeypatch.setattr(kernels, "_TOGETHER", n * program.numbers // blocks)

    J = jax.jit(jax.jacobian(lambda p: jnp.ravel(jax.vmap(lambda x: jnp.ravel(f(p, x)))(examples))))(params)
    J = np.concatenate([np.reshape(leaf, (len(leaf), -1)) for leaf in jax.tree.leaves(J)], axis=1)
    found = jax.jit(lambda p: gram_of_examples(f, p, examples))(params)
    # Sums of up to a thousand products, in another order.
    np.testing.assert_allclose(found, J @ J.T, rtol=0, atol=1e-12 * max(1.0, np.abs(J @ J.T).max()))


REGRESSION = af.tasks.SparseRegression(d=6, n=9, sparsity=2)
COMPLETION = af.tasks.MatrixCompletion(7, 6, 1, observed=0.5)
SYMBOLS = af.tasks.ModularArithmetic(5, 0.5, "+", "tokens", precision="double")

SMOOTH = {
    "tanh": lambda p: jnp.tanh(p) @ jnp.abs(jnp.arange(6.0) - 2),  # kinks in what does not depend on p
    "gelu": jax.nn.gelu,
    "a row": lambda p: p.reshape(3, 2)[jnp.argmax(jnp.arange(3))],
    "some of them": lambda p: jnp.where(jnp.arange(6) > 2, p**2, 0.0),
    "a loop": lambda p: jax.lax.fori_loop(0, 3, lambda _, h: jnp.sin(h), p),
    "a loop that counts": lambda p: jax.lax.fori_loop(0, 3, lambda i, h: jnp.where(i > 1, jnp.sin(h), h), p),
    "softplus": jax.nn.softplus,
    "softmax": jax.nn.softmax,
    "attention": lambda p: jax.nn.softmax(jnp.outer(p, p)) @ p,
    "logsumexp": jax.nn.logsumexp,
    "log_softmax": jax.nn.log_softmax,
    "log_sigmoid": jax.nn.log_sigmoid,
    "mish": jax.nn.mish,
    "sinc": jnp.sinc,
    "logaddexp": lambda p: jnp.logaddexp(p, p[0]),
    "a layer norm": lambda p: (p - jnp.mean(p)) * jax.lax.rsqrt(jnp.maximum(0.0, jnp.var(p)) + 1e-5),
    "length 1": lambda p: p / jnp.maximum(jnp.linalg.norm(p), 1e-6),
    "length 1, or 0": lambda p: p / jnp.where(jnp.sum(p * p) > 0, jnp.sqrt(jnp.sum(p * p)), 1.0),
    "a system of equations": lambda p: jnp.linalg.solve(jnp.outer(p, p) + jnp.eye(6), p),
    "compiled twice": jax.jit(jax.checkpoint(lambda p: jax.nn.softplus(p) @ p)),
    "a kink that is not used": lambda p: (jnp.abs(p), jnp.tanh(p))[1],
    "a branch chosen by data": lambda p: jax.lax.cond(jnp.arange(3)[1] > 0, jnp.sin, jnp.cos, p),
}
KINKED = {
    "relu": jax.nn.relu,
    "absolute": jnp.abs,
    "the larger of two": lambda p: jnp.maximum(p, 2 * p),
    "a branch": lambda p: jnp.where(p > 0, p, 0.1 * p),
    "in a loop": lambda p: jax.lax.fori_loop(0, 3, lambda _, h: jnp.maximum(h - 0.1, 0), p),
    "compiled": jax.jit(lambda p: jax.nn.leaky_relu(p)),
    "a norm": lambda p: jnp.max(p),
    "times yes or no": lambda p: p * (p > 0),
    "the place of the largest": lambda p: p[jnp.argmax(p)],
    "the largest, taken": lambda p: jnp.take(p, jnp.argmax(p)),
    "in their order": lambda p: p[jnp.argsort(p)] @ jnp.arange(6.0),
    "a branch by itself": lambda p: jax.lax.cond(p[0] > 0, lambda h: h, lambda h: 2 * h, p),
    "heaviside": lambda p: p * jnp.heaviside(p, 0.0),
    "straight through": lambda p: p + jax.lax.stop_gradient(jnp.round(p) - p),
    "steps": lambda p: jnp.tanh(p.astype(int).astype(float)),
    "a remainder": lambda p: p % 1.0,
    "in a scan": lambda p: jax.lax.scan(lambda h, x: (h + x * (h > 0), None), 0.0, p)[0],
    "a norm that is clipped": lambda p: p / jnp.maximum(jnp.linalg.norm(p), 1.0),
    "after a softmax": lambda p: jax.nn.relu(jax.nn.softmax(p) - 0.1),
}


@pytest.mark.parametrize("name", SMOOTH)
def test_smooth_functions_have_no_kinks(name):
    assert not has_kinks(SMOOTH[name], jnp.asarray(random(6)))


@pytest.mark.parametrize("name", KINKED)
def test_kinks_are_found(name):
    assert has_kinks(KINKED[name], jnp.asarray(random(6)))


@pytest.mark.parametrize(
    ("activation", "method"),
    [
        (jax.nn.relu, "stabilised"),
        (lambda h: h * (h > 0), "stabilised"),
        (jnp.tanh, "implicit"),
        (jax.nn.softplus, "implicit"),
    ],
    ids=["relu", "written as a product", "tanh", "softplus"],
)
def test_auto_follows_kinks_by_gradients_alone(activation, method):
    net = af.models.Function(lambda p, x: activation(p["W"] @ x) @ p["v"], {"W": random(8, 6), "v": random(8)})
    flow = af.dynamics.GradientFlow(1e4)
    problem, params = prepare(af.Experiment(REGRESSION, net, flow, penalty=af.penalties.L2(1e-3), init=af.inits.Own()))
    assert flow.resolve(problem, params)[0].method == method


class Net(af.models.Model):
    """A two-layer net of a user's own, who says that it acts on each example by itself."""

    separate = True

    width: int = 7

    def parameters(self, signature):
        d = signature.inputs[0]
        return {"W": af.models.Parameter((self.width, d), d), "v": af.models.Parameter((self.width,), self.width)}

    def __call__(self, params, inputs):
        return jnp.tanh(inputs @ params["W"].T) @ params["v"]


class Centred(Net):
    """The same less the mean over all examples, of which its class has not thought."""

    separate = True

    def __call__(self, params, inputs):
        outputs = jnp.tanh(inputs @ params["W"].T) @ params["v"]
        return outputs - jnp.mean(outputs)


@pytest.mark.parametrize(
    ("task", "model"),
    [
        (REGRESSION, af.models.MLP((5, 4), "all")),
        (REGRESSION, Net()),
        (REGRESSION, af.models.Difference(af.models.MLP((5,)))),
        (COMPLETION, af.models.Function(lambda p, x: p[0][x[0]] @ p[1][x[1]], [random(7, 3), random(6, 3)])),
        (SYMBOLS, af.models.EmbeddingMLP(3, 4)),
        (REGRESSION, af.models.Tangent(Net())),
        (COMPLETION, af.models.Tangent(af.models.MatrixFactorisation(3))),
        (af.tasks.ModularArithmetic(5, 0.5, precision="double"), af.models.MLP((6,))),
    ],
    ids=["MLP", "a class of one's own", "difference", "a function of one's own", "tokens", "tangent",
         "tangent of a matrix", "one-hot"],
)  # fmt: skip
def test_the_kernel_of_a_model_is_that_of_all_its_examples_together(task, model):
    init = af.inits.Own() if isinstance(model, af.models.Function) else af.inits.Gaussian(1.0)
    problem, params = prepare(af.Experiment(task, model, af.dynamics.GradientFlow(1.0), init=init))
    kernel, together = jax.jit(lambda p: (tangent.kernel(problem, p), tangent.gram(tangent.linearise(problem, p))))(
        params
    )
    np.testing.assert_allclose(kernel, together, rtol=0, atol=1e-12 * np.abs(together).max())


def test_the_kernel_of_a_linearisation_is_that_of_its_model_for_the_same_work(monkeypatch):
    def program(model):
        problem, params = prepare(
            af.Experiment(REGRESSION, model, af.dynamics.GradientFlow(1.0), init=af.inits.Gaussian(1.0))
        )
        moved = jax.tree.map(lambda leaf: leaf + 1, params) if isinstance(model, af.models.Tangent) else params
        return str(jax.make_jaxpr(lambda p: tangent.kernel(problem, p))(moved)).count("dot_general")

    monkeypatch.setattr(tangent, "gram", None)  # a pass over all examples for each of them
    assert program(af.models.Tangent(Net())) == program(Net())


def test_gradients_of_all_examples_at_once_are_taken_some_at_a_time_where_they_are_wide(monkeypatch):
    X, v = jnp.asarray(random(40, 5)), jnp.asarray(random(5))
    at = tangent.jacobians.linearise(lambda v: jnp.tanh(X @ v[:, None] * jnp.ones(50)).sum(axis=1), v)
    expected = tangent.gram(at)
    monkeypatch.setattr(tangent, "_TOGETHER", 40 * 50 * 8 * 3)  # three rows of as many activations
    assert "f64[40,40,50]" not in str(jax.make_jaxpr(lambda v: tangent.gram(at))(v))
    np.testing.assert_allclose(tangent.gram(at), expected, rtol=1e-12)


def test_a_model_that_mixes_examples_and_says_it_does_not_is_refused():
    experiment = af.Experiment(REGRESSION, Centred(), af.dynamics.GradientFlow(1.0), init=af.inits.Gaussian(1.0))
    with pytest.raises(af.SpecError, match="separate = True, but the output of an example depends on the others"):
        prepare(experiment)
    prepare(dataclasses.replace(experiment, model=Net()))
