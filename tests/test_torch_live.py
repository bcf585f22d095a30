"""Nets of PyTorch's beside PyTorch itself: `make test-frameworks`, and here where PyTorch is installed."""

from __future__ import annotations

import copy

import jax
import numpy as np
import pytest
from test_torch import check_close, in_order, task_of
from torch_reference import DECAY, LR, NETS, STEPS, Net, answers

import afterfit as af
from afterfit import SpecError
from afterfit._training.train import prepare

torch = pytest.importorskip("torch")
nn = torch.nn

WIDE = Net((("Linear", 64, 200), ("ReLU",), ("Linear", 200, 200), ("ReLU",), ("Linear", 200, 10)), (64,), 0, 10)


@pytest.mark.parametrize(("precision", "tolerance"), [("double", 1e-12), ("single", 1e-6)])
@pytest.mark.parametrize("name", [*NETS, "wide"])
def test_outputs_gradients_and_steps_are_those_of_pytorch_itself(name, precision, tolerance):
    net = WIDE if name == "wide" else NETS[name]
    torch.manual_seed(1)
    module = net.build(nn)
    model, task = af.models.from_torch(module), task_of(net, precision)
    said = answers(copy.deepcopy(module), *net.data(), precision)
    with jax.enable_x64(True):
        problem, params = prepare(af.Experiment(task, model, af.dynamics.GradientDescent(0.1, 1)))
        outputs = np.asarray(problem.model(params, problem.data.inputs))
        gradient = jax.device_get(jax.grad(problem.loss)(params))
    check_close([outputs], said["outputs"].ravel(), tolerance)
    check_close(in_order(model, gradient), said["gradient"], tolerance)
    if precision == "double":
        run = af.train(task=task, model=model, dynamics=af.dynamics.AdamW(LR, STEPS, weight_decay=DECAY))
        check_close(in_order(model, run.params), said["end"], 1e-9)
        assert module.state_dict().keys() == run.params.keys()
        shapes = {key: old.shape for key, old in module.state_dict().items()}
        module.load_state_dict({key: torch.tensor(run.params[key]).reshape(shape) for key, shape in shapes.items()})
        on = af.train(task=task, model=af.models.from_torch(module), dynamics=af.dynamics.GradientDescent(1e-9, 1))
        assert float(on.curves.train_loss[0]) == pytest.approx(float(run.curves.train_loss[-1]), rel=1e-5)


@pytest.mark.parametrize("kind", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_weights_of_any_precision_are_read_as_they_are(kind):
    module = NETS["tokens"].build(nn).to(kind)
    for name, tensor in module.state_dict().items():
        assert np.array_equal(af.models.from_torch(module).initial[name], tensor.double().numpy())


class Own(nn.Sequential):
    def forward(self, x):
        return -super().forward(x)


def hooked():
    net = nn.Sequential(nn.Linear(4, 3))
    net[0].register_forward_hook(lambda module, args, output: 2 * output)
    return net


def tied():
    net = nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 4))
    net[2].weight = net[0].weight
    return net


@pytest.mark.parametrize(
    ("net", "said"),
    [
        (Own(nn.Linear(4, 3)), r"takes a torch.nn.Sequential"),
        (nn.Sequential(nn.Linear(4, 3), nn.BatchNorm1d(3)), r"does not know layer '1' of the net, BatchNorm1d"),
        (nn.Sequential(nn.LazyLinear(3)), r"does not know layer '0'"),
        (nn.Sequential(nn.utils.parametrizations.weight_norm(nn.Linear(4, 3))), r"does not know layer '0'"),
        (nn.Sequential(nn.Linear(4, 3), nn.Dropout(0.1)), r"layer '1' of the net, Dropout\(p=0.1"),
        (nn.Sequential(nn.Linear(4, 3), nn.Flatten(0)), r"layer '1' of the net, Flatten\(start_dim=0"),
        (nn.Sequential(nn.Embedding(5, 3, padding_idx=0)), r"has one of padding_idx"),
        (nn.Sequential(nn.Linear(4, 3)).requires_grad_(False), r"weight of layer '0' of the net is frozen"),
        (hooked(), r"layer '0' of the net, .* has hooks"),
        (tied(), r"layers '0' and '2' of the net share their weights"),
    ],
)
def test_what_would_be_another_net_here_is_refused(net, said):
    with pytest.raises(SpecError, match=said):
        af.models.from_torch(net)
