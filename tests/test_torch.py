"""Nets of PyTorch's: the same outputs, gradients and steps as PyTorch's own, which are kept in a file.

PyTorch is not needed here. A stand-in has what `from_torch` reads of a module, its class and attributes, and no
arithmetic: every number that is compared was computed by PyTorch (`tests/torch_reference.py`).
"""

from __future__ import annotations

import sys
import types

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from torch_reference import DECAY, FILE, LR, NETS, STEPS

import afterfit as af
from afterfit import SpecError
from afterfit._training.train import prepare

with np.load(FILE) as file:
    SAID = {name: file[name] for name in file.files}


class Tensor:
    """A tensor, as far as it is read."""

    requires_grad = True

    def __init__(self, *shape):
        self.array = np.full(shape, np.nan)
        self.shape = shape

    def detach(self):
        return self

    cpu = double = detach

    def numpy(self):
        return self.array


class Module:
    def __init__(self, *arguments, **settings):
        self._forward_hooks, self._forward_pre_hooks, self._modules = {}, {}, {}
        self.read(*arguments, **settings)

    def read(self):
        pass

    def __repr__(self):
        return f"{type(self).__name__}(…)"


class Sequential(Module):
    def read(self, *modules):
        self._modules = {str(place): module for place, module in enumerate(modules)}


class Linear(Module):
    def read(self, inputs, outputs, bias=True):
        self.weight, self.bias = Tensor(outputs, inputs), Tensor(outputs) if bias else None


class Embedding(Module):
    def read(self, rows, width, padding_idx=None):
        self.weight, self.padding_idx = Tensor(rows, width), padding_idx
        self.max_norm, self.scale_grad_by_freq, self.sparse = None, False, False


class GELU(Module):
    def read(self, approximate="none"):
        self.approximate = approximate


class Dropout(Module):
    def read(self, p=0.5):
        self.p = p


class Flatten(Module):
    start_dim, end_dim = 1, -1


NN = types.SimpleNamespace(
    Sequential=Sequential,
    Linear=Linear,
    Embedding=Embedding,
    GELU=GELU,
    Dropout=Dropout,
    Flatten=Flatten,
    **{name: type(name, (Module,), {}) for name in ("Identity", "ReLU", "Tanh", "SiLU", "Sigmoid", "LayerNorm")},
)


@pytest.fixture(autouse=True)
def stand_in(monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", types.SimpleNamespace(nn=NN))


def weights_of(module):
    """The tensors of a stand-in, in the order of PyTorch's state_dict."""
    for child in module._modules.values():
        yield from weights_of(child)
    yield from (tensor for own in ("weight", "bias") if (tensor := getattr(module, own, None)) is not None)


def built(name, scale=1.0):
    """A net with the weights that PyTorch gave it, or a multiple of them."""
    module, rest = NETS[name].build(NN), scale * SAID[f"{name} start"]
    for tensor in weights_of(module):
        mine, rest = np.split(rest, [np.prod(tensor.shape)])
        tensor.array = mine.reshape(tensor.shape)
    assert rest.size == 0
    return module


def read(name):
    return af.models.from_torch(built(name))


def task_of(net, precision="double"):
    X, y = net.data()
    return af.tasks.Arrays(X, y, X, y, loss_name="cross_entropy" if net.classes else "squared", precision=precision)


def in_order(model, params):
    """Parameters in the order of PyTorch's state_dict."""
    names = [f"{layer.name}.{own}" for layer in model.layers for own in ("weight", "bias")]
    assert set(params) <= set(names)
    return [params[name] for name in names if name in params]


def check_close(found, said, tolerance):
    """Arrays are the parts of one vector, each to a share of its own size."""
    for array in found:
        mine, said = np.split(said, [np.size(array)])
        assert np.max(np.abs(np.ravel(array) - mine)) <= tolerance * np.max(np.abs(mine))
    assert said.size == 0


@pytest.mark.parametrize(("precision", "tolerance"), [("double", 1e-12), ("single", 1e-6)])
@pytest.mark.parametrize("name", NETS)
def test_outputs_and_gradients_are_those_of_pytorch(name, precision, tolerance):
    model, task = read(name), task_of(NETS[name], precision)
    with jax.enable_x64(True):
        problem, params = prepare(af.Experiment(task, model, af.dynamics.GradientDescent(0.1, 1)))
        outputs = problem.model(params, problem.data.inputs)
        gradient = jax.device_get(jax.grad(problem.loss)(params))
    assert outputs.dtype == (jnp.float64 if precision == "double" else jnp.float32)
    check_close([np.asarray(outputs)], SAID[f"{name} {precision} outputs"].ravel(), tolerance)
    check_close(in_order(model, gradient), SAID[f"{name} {precision} gradient"], tolerance)


@pytest.mark.parametrize("name", NETS)
def test_a_run_starts_at_the_weights_and_goes_where_pytorch_goes(name):
    model, adam = read(name), af.dynamics.AdamW(LR, STEPS, weight_decay=DECAY)
    run = af.train(task=task_of(NETS[name]), model=model, dynamics=adam)
    # Rounding of 20 steps, each divided by the size of a gradient.
    check_close(in_order(model, run.params), SAID[f"{name} double end"], 1e-9)


@pytest.mark.parametrize("name", NETS)
def test_what_is_known_of_a_net_follows_from_its_layers(name):
    net, model = NETS[name], read(name)
    assert (model.degree, model.smooth, model.linear) == (net.degree, net.smooth, net.linear)
    with jax.enable_x64(True):
        problem, params = prepare(af.Experiment(task_of(net), model, af.dynamics.GradientDescent(0.1, 1)))

        def f(c):
            return np.asarray(problem.model(jax.tree.map(lambda p: c * p, params), problem.data.inputs))

        growth = f(2.0) / f(1.0)
        bend = np.max(np.abs(f(3.0) - 2 * f(2.0) + f(1.0)))
    assert np.allclose(growth, 2**net.degree) if net.degree else np.ptp(growth) > 1e-2
    assert (bend < 1e-12) == net.linear


def test_a_net_is_told_by_its_weights():
    task, descent = task_of(NETS["relu"]), af.dynamics.GradientDescent(0.1, 1)
    ids = []
    for scale in (1.0, 1.0, 1.5):
        module = built("relu", scale)
        model = af.models.from_torch(module)
        for tensor in weights_of(module):
            tensor.array[...] = 0.0  # what happens to the net later is its own affair
        ids.append(af.Experiment(task, model, descent).id)
    assert ids[0] == ids[1] != ids[2]


def test_a_run_of_a_net_can_be_kept_and_another_can_begin_at_its_end(tmp_path):
    task, descent = task_of(NETS["tanh"]), af.dynamics.GradientDescent(0.1, 5)
    run = af.train(task=task, model=read("tanh"), dynamics=descent)
    run.save(tmp_path / "run")
    end = af.load(tmp_path / "run").params
    on = af.train(task=task, model=read("tanh"), dynamics=descent, init=af.inits.From(end))
    assert on.curves.train_loss[0] == run.curves.train_loss[-1]
    zero = af.train(task=task, model=read("tanh"), dynamics=descent, init=af.inits.ZeroLastLayer(af.inits.Own()))
    assert zero.curves.train_error[0] == 1.0


CHAIN = NN.Sequential
SHARED = Linear(4, 4)


@pytest.mark.parametrize(
    ("net", "said"),
    [
        (3, r"takes a torch.nn.Sequential, got 3"),
        (Linear(4, 3), r"takes a torch.nn.Sequential, got Linear"),
        (
            CHAIN(Linear(4, 3), CHAIN(NN.LayerNorm())),
            r"does not know layer '1.0' of the net, LayerNorm.*Function",
        ),
        (CHAIN(type("Linear", (Linear,), {})(4, 3)), r"does not know layer '0'"),
        (CHAIN(Linear(4, 3), Dropout(0.1)), r"layer '1' of the net, Dropout.*drops units at random"),
        (CHAIN(Embedding(5, 3, 0)), r"has one of padding_idx"),
        (CHAIN(Linear(4, 3), Embedding(5, 3)), r"layer '1' embeds tokens, which only the first layer can"),
        (CHAIN(NN.ReLU()), r"no layer with weights"),
        (CHAIN(SHARED, SHARED), r"layers '0' and '1' of the net share their weights"),
        (
            CHAIN(Linear(5, 3)),
            r"takes 5 numbers, but on this task, with inputs of shape \(4,\), it gets \(4,\)",
        ),
        (CHAIN(Linear(4, 2)), r"gives outputs of shape \(2,\) an example, but the task has \(3,\)"),
        (CHAIN(Embedding(5, 3)), r"\(4, 3\) an example.*Flatten\(\) behind the embedding"),
        (CHAIN(Embedding(5, 1), Flatten(), Linear(4, 3)), r"embeds tokens 0, 1, …, 4, but the inputs have \[-"),
    ],
)
def test_what_cannot_be_read_or_does_not_fit_is_refused_in_a_sentence(net, said):
    for tensor in weights_of(net) if isinstance(net, Module) else ():
        tensor.array[...] = 1.0
    with pytest.raises(SpecError, match=said) as refused:
        af.train(
            task=task_of(NETS["relu"]), model=af.models.from_torch(net), dynamics=af.dynamics.GradientDescent(0.1, 1)
        )
    assert len(str(refused.value).splitlines()) == 1


@pytest.mark.parametrize("odd", [5, -1, 0.5])
def test_tokens_without_a_row_are_refused(odd):
    (X, y), X_test = NETS["tokens"].data(), np.asarray([[0, odd]])
    task = af.tasks.Arrays(X, y, X_test, [4], loss_name="cross_entropy")
    with pytest.raises(SpecError, match=rf"embeds tokens 0, 1, …, 4, but the inputs have \[{odd:.1f}\]"):
        af.train(task=task, model=read("tokens"), dynamics=af.dynamics.GradientDescent(0.1, 1))


def test_frozen_weights_and_hooks_are_refused():
    net = built("relu")
    net._modules["2"].weight.requires_grad = False
    with pytest.raises(SpecError, match=r"the weight of layer '2' of the net is frozen"):
        af.models.from_torch(net)
    net = built("relu")
    net._modules["1"]._forward_hooks[0] = print
    with pytest.raises(SpecError, match=r"layer '1' of the net, .* has hooks"):
        af.models.from_torch(net)


def test_without_pytorch_there_is_nothing_to_read(monkeypatch):
    monkeypatch.delitem(sys.modules, "torch")
    with pytest.raises(SpecError, match=r"takes a torch.nn.Sequential, got {}"):
        af.models.from_torch({})
