"""Two-layer ReLU nets of one variable: their kinks, and the convex programs whose solutions penalised nets are."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

import afterfit as af

__all__ = ["Kink", "Net", "Program", "kinks", "net_of", "penalised", "penalised_slopes", "sharpness"]


class Net(NamedTuple):
    """f(x) = Σⱼ uⱼ ReLU(vⱼx + bⱼ)."""

    u: np.ndarray
    v: np.ndarray
    b: np.ndarray

    def __call__(self, x: np.ndarray) -> np.ndarray:
        return np.maximum(np.multiply.outer(x, self.v) + self.b, 0) @ self.u

    @property
    def squared_norm(self) -> float:
        """‖w‖² = ‖u‖² + ‖v‖² + ‖b‖²."""
        return float(self.u @ self.u + self.v @ self.v + self.b @ self.b)


def net_of(params: dict[str, Any]) -> Net:
    """The net that the parameters of an `MLP` with one hidden layer and biases there are."""
    hidden, output = params["layers"]
    return Net(*(np.ravel(np.asarray(leaf, float)) for leaf in (output["weight"], hidden["weight"], hidden["bias"])))


class Kink(NamedTuple):
    """A place where the slope of a function changes, and by how much."""

    place: float
    change: float


def kinks(net: Net, size: float, width: float = 0.05, reach: float = 2.0) -> list[Kink]:
    """The kinks of a net in [−reach, reach] at which its slope changes by `size` or more, from left to right.

    The slope changes by uⱼ|vⱼ| at −bⱼ/vⱼ, whichever way unit j faces. Units side by side, none further than `width`
    from the first of them, make one kink: the sum of their changes, at their middle weighted by size.
    """
    faces = net.v != 0
    places, changes = -net.b[faces] / net.v[faces], (net.u * np.abs(net.v))[faces]
    inside = np.flatnonzero(np.abs(places) <= reach)
    order = inside[np.argsort(places[inside])]
    places, changes = places[order], changes[order]
    found, first = [], 0
    while first < len(places):
        last = int(np.searchsorted(places, places[first] + width, side="right"))
        total = float(np.sum(changes[first:last]))
        if abs(total) >= size:
            weights = np.abs(changes[first:last])
            found.append(Kink(float(np.average(places[first:last], weights=weights)), total))
        first = last
    return found


class Program(NamedTuple):
    """The solution of a convex program over nets, its `value`, and a `bound` that no net of any width is below."""

    net: Net
    value: float
    bound: float


def penalised(x: np.ndarray, y: np.ndarray, decay: float, directions: int = 2000) -> Program:
    """argmin (1/2n) Σ(f(xᵢ) − yᵢ)² + λ·∫√(1+x²)|f″(x)|dx over all f, however many units they have.

    This is what weight decay (λ/2)(‖u‖² + ‖v‖² + ‖b‖²) penalises, biases included: of one function it is least where
    |uⱼ| = ‖(vⱼ, bⱼ)‖, and is then λ·Σ|uⱼ|‖(vⱼ, bⱼ)‖, where a unit with its kink at c has ‖(v, b)‖ = |v|√(1+c²)
    (Boursier and Flammarion 2023). With (v, b) = (cos φ, sin φ) it is a lasso over φ, here on an even grid of the
    circle and all φ whose kink is an example. The bound is that of duality, over all φ and not only those of the grid.
    """
    n, at_examples = len(y), np.arctan2(-x, 1.0)
    grid = np.linspace(-np.pi, np.pi, directions, endpoint=False)
    phi = np.concatenate([grid, at_examples, at_examples + np.pi])
    v, b = np.cos(phi), np.sin(phi)
    units = np.maximum(np.outer(x, v) + b, 0)
    u = af.theory.lasso(units, y, n * decay)
    misfit = y - units @ u
    dual = misfit * min(1.0, n * decay / _steepest(x, misfit))
    used = u != 0
    return Program(
        Net(u[used], v[used], b[used]),
        value=float(misfit @ misfit / (2 * n) + decay * np.sum(np.abs(u))),
        bound=float((y @ y - (y - dual) @ (y - dual)) / (2 * n)),
    )


def _steepest(x: np.ndarray, misfit: np.ndarray) -> float:
    """max |Σᵢ rᵢ ReLU(xᵢ cos φ + sin φ)| over all φ, exactly: between two φ at which a unit's kink is an example, the
    sum is C·cos φ + S·sin φ."""
    turns = np.arctan2(-x, 1.0)
    turns = np.sort(np.mod(np.concatenate([turns, turns + np.pi]), 2 * np.pi))
    largest = 0.0
    for low, high in zip(turns, np.append(turns[1:], turns[0] + 2 * np.pi), strict=True):
        active = x * np.cos((low + high) / 2) + np.sin((low + high) / 2) > 0
        C, S = float(x[active] @ misfit[active]), float(np.sum(misfit[active]))
        peaks = [top for top in (np.arctan2(S, C), np.arctan2(-S, -C)) if np.mod(top - low, 2 * np.pi) <= high - low]
        largest = max([largest, *(abs(C * np.cos(phi) + S * np.sin(phi)) for phi in (low, high, *peaks))])
    return largest


def penalised_slopes(x: np.ndarray, y: np.ndarray, decay: float, places: int = 2000, reach: float = 2.0) -> Net:
    """The same with λ·∫|f″(x)|dx, what weight decay penalises that leaves the biases alone (Savarese et al. 2019).

    A constant is free then. Kinks are on an even grid of [−reach, reach], with both faces, and at the examples.
    """
    c = np.concatenate([np.linspace(-reach, reach, places), x])
    v = np.concatenate([np.ones_like(c), -np.ones_like(c)])
    b = -v * np.concatenate([c, c])
    units = np.maximum(np.outer(x, v) + b, 0)
    u = af.theory.lasso(units - units.mean(axis=0), y - y.mean(), len(y) * decay)
    constant = float(np.mean(y - units @ u))
    return Net(np.append(u, constant), np.append(v, 0.0), np.append(b, 1.0))


def sharpness(net: Net, x: np.ndarray, y: np.ndarray) -> float:
    """λ_max(∇²F) of F = (1/2n) Σ(f(xᵢ) − yᵢ)² over the weights (u, v, b)."""
    before = np.multiply.outer(x, net.v) + net.b
    active = (before > 0).astype(float)
    jacobian = np.concatenate([np.maximum(before, 0), active * net.u * x[:, None], active * net.u], axis=1)
    width, misfit = len(net.u), net(x) - y
    u, v, b = np.arange(3 * width).reshape(3, width)
    curved = np.zeros((3 * width, 3 * width))  # Σ misfit·∇²f: only uⱼ with vⱼ and with bⱼ
    curved[u, v] = curved[v, u] = (misfit * x) @ active
    curved[u, b] = curved[b, u] = misfit @ active
    return float(np.linalg.eigvalsh((jacobian.T @ jacobian + curved) / len(x))[-1])
