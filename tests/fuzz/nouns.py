"""A grammar of experiments: tiny ones that are right, and values that are not."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

# An experiment that takes no time.
PLAIN: dict[str, Any] = {
    "task": {"kind": "SparseRecovery", "n": 6, "sparsity": 2, "N": 4},
    "model": {"kind": "Linear"},
    "penalty": {"kind": "L2", "strength": 0.1},
    "dynamics": {"kind": "GradientDescent", "lr": 0.1, "steps": 20},
    "init": {"kind": "Gaussian", "scale": 0.5},
    "observations": 6,
}

__all__ = ["HOSTILE", "choose", "leaves", "replaced", "sensible", "structure", "to_toml"]

Rng = np.random.Generator

# Sizes are tiny and of few kinds, so that programs are compiled seldom; what is not tiny is too much for any machine.
_TASKS: Sequence[Mapping[str, Any]] = [
    {"kind": "SparseRegression", "n": 4, "d": 6, "sparsity": 2, "n_test": 8},
    {"kind": "SparseRegression", "n": 4, "d": 6, "sparsity": 2, "n_test": 8, "reduction": "mean", "design": "sign"},
    {"kind": "SparseRecovery", "n": 6, "sparsity": 2, "N": 4},
    {"kind": "SparseRecovery", "n": 6, "sparsity": 1, "N": 4, "coherence": 0.5, "snr": 100.0, "precision": "single"},
    {"kind": "SparseClassification", "n": 4, "d": 6, "sparsity": 3, "n_test": 8},
    {"kind": "SparseClassification", "n": 4, "d": 6, "sparsity": 1, "n_test": 8, "loss_name": "exponential"},
    {"kind": "MarginClassification", "n": 4, "d": 6, "margin": 1.0, "n_test": 8},
    {"kind": "MatrixCompletion", "rows": 4, "columns": 4, "rank": 1, "observed": 9},
    {"kind": "MatrixCompletion", "rows": 4, "columns": 3, "rank": 2, "observed": 0.5, "reduction": "half_sum"},
    {"kind": "MatrixSensing", "rows": 3, "columns": 3, "rank": 1, "N": 5},
    {"kind": "ModularArithmetic", "p": 5, "fraction": 0.5},
    {"kind": "ModularArithmetic", "p": 5, "fraction": 0.5, "form": "tokens"},
    {"kind": "ReLURegression", "n": 4, "n_test": 8},
    {"kind": "FourierRegression", "n": 4, "frequencies": 3, "cosines": [2], "sines": [1], "n_test": 8},
    {"kind": "TeacherStudent", "d": 3, "hidden": 4, "outputs": 2, "n": 4, "n_test": 8},
    {"kind": "CirclePoints", "n": 4, "n_test": 8},
]
_MODELS: Sequence[Mapping[str, Any]] = [
    {"kind": "Linear"},
    {"kind": "Linear"},
    {"kind": "DiagonalNet"},
    {"kind": "DiagonalNet", "depth": 3},
    {"kind": "DiagonalProduct", "depth": 2},
    {"kind": "MatrixFactorisation", "rank": 2},
    {"kind": "SymmetricFactorisation", "rank": 2},
    {"kind": "DeepMatrixFactorisation", "depth": 3},
    {"kind": "MLP", "hidden": [4]},
    {"kind": "MLP", "hidden": [4], "biases": "hidden"},
    {"kind": "MLP", "hidden": [3, 2], "biases": "all"},
    {"kind": "EmbeddingMLP", "embedding": 3, "hidden": 4},
    {"kind": "Difference", "model": {"kind": "MLP", "hidden": [4]}},
    {"kind": "Tangent", "model": {"kind": "MLP", "hidden": [4]}},
]
_PENALTIES: Sequence[Mapping[str, Any]] = [
    {"kind": "NoPenalty"},
    {"kind": "L1", "strength": 0.01},
    {"kind": "L2", "strength": 0.01},
    {"kind": "Nuclear", "strength": 0.01},
    {"kind": "Nuclear", "strength": 0.01, "of": "weights"},
    {"kind": "Sobolev", "strength": 0.01},
    {"kind": "Sum", "penalties": [{"kind": "L1", "strength": 0.01}, {"kind": "L2", "strength": 0.1}]},
]
_DYNAMICS: Sequence[Mapping[str, Any]] = [
    {"kind": "GradientDescent", "lr": 0.05, "steps": 20},
    {"kind": "GradientDescent", "lr": 0.05, "steps": 20},
    {"kind": "ProximalGradient", "lr": 0.05, "steps": 20},
    {"kind": "ProjectedSubgradient", "lr": 0.05, "steps": 20},
    {"kind": "LossScaledDescent", "lr": 0.01, "steps": 20},
    {"kind": "SGD", "lr": 0.05, "steps": 20, "batch": 2},
    {"kind": "LabelNoiseSGD", "lr": 0.05, "steps": 20, "noise": 0.1},
    {"kind": "Adam", "lr": 0.05, "steps": 20},
    {"kind": "AdamW", "lr": 0.05, "steps": 20, "weight_decay": 0.1},
    {"kind": "GradientFlow", "until": 2.0},
    {"kind": "GradientFlow", "until": 2.0, "method": "explicit"},
    {"kind": "LossScaledFlow", "until": 2.0},
    {"kind": "RiemannianFlow", "until": 2.0},
]
_INITS: Sequence[Mapping[str, Any]] = [
    {"kind": "Gaussian", "scale": 0.5},
    {"kind": "ScaledGaussian", "scale": 0.5},
    {"kind": "He"},
    {"kind": "He", "distribution": "uniform"},
    {"kind": "Constant", "scale": 0.5},
    {"kind": "Constant", "norm": 2.0},
    {"kind": "Identity", "scale": 0.5, "perturbation": 0.1},
    {"kind": "ZeroLastLayer", "init": {"kind": "He"}},
    {"kind": "Symmetrised", "init": {"kind": "Gaussian", "scale": 0.5}},
    {"kind": "Own"},
]
_NUMBERS = ("strength", "lr", "scale", "weight_decay", "noise", "until", "norm", "perturbation")  # that compile nothing

# Values of the wrong type, at the edge or beyond it. Whole numbers are tiny or beyond any machine.
HOSTILE: Sequence[Any] = [
    0, -1, 1, 2, 10**12, 10**20, 2**63, -(2**63), 10**400,
    0.0, -0.0, -1.0, 0.5, 1.5, 1e-300, 5e-324, 1e150, 1e308, float("inf"), float("-inf"), float("nan"),
    True, False, None, "", "nan", "inf", "0.5", "Linear", "settled", "$", "$$", "$\\bad{$", "\\frac{", "<b>&amp;</b>",
    "ξ̂ 🙂", "a\nb", "\x00", "../../etc", "x" * 300, [], [[]], [1, 2], ["a"], [0.5, None], {}, {"kind": "L2"},
    {"kind": "GradientDescent", "lr": 0.1, "steps": 5},
]  # fmt: skip


def choose(rng: Rng, options: Sequence[Any]) -> Any:
    """One of the options; unlike `rng.choice`, as it is."""
    return options[int(rng.integers(len(options)))]


def structure(rng: Rng) -> dict[str, Any]:
    """A random experiment of tiny size, each noun at its plain values; the parts need not fit each other."""
    task = choose(rng, _TASKS)
    fits = _fitting(task["kind"]) if rng.random() < 0.85 else lambda noun: True
    data = {
        "task": task,
        "model": choose(rng, [model for model in _MODELS if fits(model)]),
        "penalty": choose(rng, [penalty for penalty in _PENALTIES if fits(penalty)]),
        "dynamics": choose(rng, [dynamics for dynamics in _DYNAMICS if fits(dynamics)]),
        "init": choose(rng, [init for init in _INITS if fits(init)]),
        "seed": 0,
        "observations": 6,
    }
    return json.loads(json.dumps(data))


def _fitting(task: str) -> Callable[[Mapping[str, Any]], bool]:
    """Whether a noun goes with a task and whatever else goes with it."""
    matrices, vectors = task.startswith("Matrix"), task.startswith(("Sparse", "Margin", "Fourier"))
    kinds = {"NoPenalty", "L1", "L2", "Sum", "GradientDescent", "SGD", "LabelNoiseSGD", "Adam", "AdamW", "GradientFlow"}
    kinds |= {"Gaussian", "ScaledGaussian"} | ({"He"} if not matrices else {"Nuclear"})
    models = {"MatrixFactorisation", "DeepMatrixFactorisation"} if matrices else {"MLP", "Difference", "Tangent"}
    models |= {"Linear", "DiagonalNet", "DiagonalProduct"} if vectors else set()
    proximal = {"ProximalGradient"} if vectors or task == "MatrixCompletion" else set()
    return lambda noun: noun["kind"] in kinds | models | proximal


def sensible(rng: Rng, data: dict[str, Any]) -> dict[str, Any]:
    """The same structure with other numbers, all of them possible, that compile nothing anew."""
    for path, value in leaves(data):
        if path[-1] in _NUMBERS and isinstance(value, float):
            data = replaced(data, path, float(value * np.exp(rng.normal(0, 1))))
    data["seed"] = int(rng.integers(2**40))
    data["observations"] = int(rng.integers(3, 9))
    return data


def leaves(data: Any, at: tuple[Any, ...] = ()) -> list[tuple[tuple[Any, ...], Any]]:
    """The paths and values of all settings."""
    if isinstance(data, dict | list):
        items = data.items() if isinstance(data, dict) else enumerate(data)
        return [leaf for key, value in items for leaf in leaves(value, (*at, key))]
    return [(at, data)]


def replaced(data: Any, path: Sequence[Any], value: Any) -> Any:
    """A copy with another value at a path; a new key is added."""
    if not path:
        return value
    copy: Any = dict(data) if isinstance(data, dict) else list(data)
    copy[path[0]] = replaced(copy[path[0]] if len(path) > 1 else None, path[1:], value)
    return copy


def to_toml(data: Mapping[str, Any], write: Callable[[float], str] = repr) -> str:
    """Plain data as a TOML file; what is None is left out."""
    return "".join(f"{key} = {_toml(value, write)}\n" for key, value in data.items() if value is not None)


def _toml(value: Any, write: Callable[[float], str]) -> str:
    if isinstance(value, dict):
        inside = (f"{json.dumps(str(k))} = {_toml(v, write)}" for k, v in value.items() if v is not None)
        return "{" + ", ".join(inside) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(_toml(item, write) for item in value if item is not None) + "]"
    if isinstance(value, float):
        return write(value)
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) >= 2**63:
        return str(value)
    return json.dumps(value).replace("\x7f", "\\u007f")
