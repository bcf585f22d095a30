"""App. C, (23)–(24): linear regression, where both phases are known in closed form."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

import afterfit as af
from afterfit.papers import Entry, Finding, claim, once, run_all
from afterfit.papers._measure import examples, log_slope
from afterfit.papers.boursier2025 import PAPER
from afterfit.papers.boursier2025.decays import falls

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["Linear"]


class Linear(Entry):
    paper, name = PAPER, "linear"
    title = "Linear regression: fast onto the manifold, slowly along it"
    where = "App. C, (23)–(24)"
    about = (
        "Linear regression with fewer examples than dimensions and weight decay λ, by gradient flow and by gradient "
        "descent, against the closed form (23)–(24) in the basis z = Vᵀw of the singular value decomposition "
        "X = UΣVᵀ: coordinates orthogonal to the manifold {w : Xw = y} move at the rate σᵢ² + λ, those along it at "
        "the rate λ. The formula is the one for F = ½‖Xw − y‖², which the runs use. The paper prints F = ‖Xw − y‖², "
        "whose rates are 2σᵢ² + λ; one run shows the difference."
    )
    notes = (
        "The paper states (23)–(24) for F(w) = ‖Xw − y‖², whose rate is 2σᵢ² + λ. As printed, with σᵢ² + λ, they "
        "are those of ½‖Xw − y‖², which the other rows use."
    )

    def runs(self, scale: str) -> dict[str, af.Experiment | dict[float, af.Experiment]]:
        if scale == "paper":
            n, d, sparsity, decay, lr = 20, 50, 5, 1e-3, 4e-3
        else:
            n, d, sparsity, decay, lr = 5, 12, 2, 1e-2, 1.6e-2
        flow = af.Experiment(
            task=af.tasks.SparseRegression(n=n, d=d, sparsity=sparsity, reduction="half_sum"),
            model=af.models.Linear(),
            penalty=af.penalties.L2(decay),
            # Simulated: left to itself the flow of linear regression would be followed in closed form.
            dynamics=af.dynamics.GradientFlow(until=10 / decay, first=1e-3, rtol=1e-9, atol=1e-12, method="explicit"),
            init=af.inits.Gaussian(1.0),
            observations=100,
        )
        return {
            "flow": flow,
            "printed": flow.set({"task.reduction": "sum"}),
            "free": flow.set({"penalty.strength": 0.0, "dynamics.until": 1 / decay}),
            "descents": {
                eta: flow.set({"dynamics": {"kind": "GradientDescent", "lr": eta, "steps": round(1 / decay / eta)}})
                for eta in (lr / 2**k for k in range(4))
            },
        }

    def picture(self, flow: af.Run, free: af.Run, posed: Regression, off: Mapping[float, float]) -> Figure:
        figure = af.plot.Figure(figsize=(13.5, 4.4), layout="constrained")
        left, middle, right = figure.subplots(1, 3, width_ratios=(4, 4, 3))
        _show_coordinates(left, flow, posed)
        _show_distances(middle, flow, free, posed)
        af.plot.log_time_axes(left, middle)
        for ax in (left, middle):
            af.plot.mark_phases(ax, flow.verdict)
        _show_step_sizes(right, off)
        af.plot.legend_below(left, middle, right)
        return figure

    @once
    def posed(self, flow: af.Run) -> Regression:
        """The data and the start of all runs."""
        return Regression.of(flow)

    @once
    def off(self, descents: Mapping[float, af.Run]) -> dict[float, float]:
        """The largest distance of each descent from (23)–(24), relative to ‖w₀‖, by its step size."""
        return {eta: _distance_from_closed_form(run) for eta, run in descents.items()}

    @claim(
        "gradient flow on ½‖Xw − y‖² follows (23)–(24)",
        says="zᵢ(t) = zᵢ^∞ + e^{−(σᵢ²+λ)t}(zᵢ(0) − zᵢ^∞), zᵢ^∞ = σᵢ²zᵢ*/(σᵢ² + λ); zᵢ(t) = e^{−λt}zᵢ(0) along M",
    )
    def follows(self, flow: af.Run) -> Finding:
        error = coordinate_error(flow)
        return Finding(
            f"largest |error of zᵢ(t)|/max|zᵢ|, over all i and {flow.curves.sizes['time']} times: {error:.1g}",
            error <= 1e-6,
        )

    @claim(
        "gradient flow on ‖Xw − y‖², the F that is printed, follows (23)–(24)",
        says="F(w) = ‖Xw − y‖² with the same (23)–(24)",
        fails="The formula is that of ½‖Xw − y‖²: the gradient of ‖Xw − y‖² has 2σᵢ² where (23) has σᵢ².",
    )
    def follows_as_printed(self, printed: af.Run) -> Finding:
        wrong, right = coordinate_error(printed), coordinate_error(printed, factor=2.0)
        return Finding(
            f"the same error is {wrong:.2g}; with 2σᵢ² for σᵢ² in (23), the rate of this F, it is {right:.1g}",
            wrong <= 1e-6,
        )

    @claim(
        "orthogonal coordinates move first, at times 1/σᵢ², and parallel ones at 1/λ",
        says="rates σᵢ² + λ and λ",
    )
    def two_times(self, flow: af.Run, posed: Regression) -> Finding:
        n, decay = posed.n, flow.spec["penalty"]["strength"]
        times = decay_times(flow.curves["time"].values, flow.curves["weights"].values @ posed.V)
        fast, slow = times[:n] * (posed.sigma[:n] ** 2 + decay), times[n:] * decay
        return Finding(
            f"a distance to the end falls by e at t = {times[:n].min():.3g} to {times[:n].max():.3g} (orthogonal) and "
            f"{times[n:].min():.4g} to {times[n:].max():.4g} (parallel); times the rate: {fast.min():.3f} to "
            f"{fast.max():.3f} and {slow.min():.3f} to {slow.max():.3f}",
            bool(np.all(np.abs(np.concatenate([fast, slow]) - 1) <= 0.01) and times[:n].max() < 0.01 * times[n:].min()),
        )

    @claim("unregularised flow ends at the projection of w₀ on the manifold", says="equality")
    def projects(self, free: af.Run, posed: Regression) -> Finding:
        gap = posed.from_projection(free.params["weights"])
        return Finding(
            f"distance at t={free.spec['dynamics']['until']:g}, relative to ‖w₀‖: {gap:.1g}; "
            f"w₀ itself is at {posed.from_projection(posed.w0):.2g}",
            gap <= 1e-6,
        )

    @claim(
        "between the two times the iterates are near that projection as λ → 0",
        says="(z₁*, …, zₙ*, zₙ₊₁(0), …, z_d(0)) for λ → 0",
    )
    def passes_the_projection(self, flow: af.Run, posed: Regression, progress: bool | None) -> Finding:
        # Midway, on a log axis, between 1/σₙ² and 1/λ: e^{−σₙ²t} and λt are then both small.
        decays = (1e-2, 1e-3, 1e-4, 1e-5)
        until = {decay: 1 / (posed.sigma[posed.n - 1] * np.sqrt(decay)) for decay in decays}
        midway = {
            f"{decay:g}": flow.experiment.set({"penalty.strength": decay, "dynamics.until": t, "observations": 2})
            for decay, t in until.items()
        }
        ends = run_all(midway, f"{self.id}: midway", progress).values()
        gaps = [posed.from_projection(end.params["weights"]) for end in ends]
        return Finding(
            "distance at t = 1/(σₙ√λ), relative to ‖w₀‖: "
            + ", ".join(f"{gap:.2g} (λ={decay:g})" for gap, decay in zip(gaps, decays, strict=True)),
            falls(gaps) and gaps[-1] <= 0.01,
        )

    @claim(
        "the end is near the minimum-norm solution X⁺y",
        says="(z₁*, …, zₙ*, 0, …, 0), up to zᵢ* − zᵢ^∞ = λzᵢ*/(σᵢ² + λ)",
    )
    def ends_at_least_norm(self, flow: af.Run, posed: Regression) -> Finding:
        decay, end, least = flow.spec["penalty"]["strength"], flow.params["weights"], posed.least
        across, along = posed.V[:, : posed.n], posed.V[:, posed.n :]
        orthogonal = np.linalg.norm((end - least) @ across) / np.linalg.norm(least)
        parallel = np.linalg.norm(end @ along) / np.linalg.norm(posed.w0 @ along)
        bound = decay / (posed.sigma[posed.n - 1] ** 2 + decay)
        return Finding(
            f"at t={flow.spec['dynamics']['until']:g} the orthogonal part is {orthogonal:.2g}·‖X⁺y‖ from X⁺y (at most "
            f"{bound:.2g} by (23)), the parallel part has {parallel:.2g} of its start left (e^−10 = {np.exp(-10):.2g})",
            bool(orthogonal <= 1.001 * bound and parallel <= 1e-4),
        )

    @claim(
        "gradient descent follows the flow to first order in its step size",
        says="the flow is the limit of small steps (the closed form is of the flow)",
    )
    def descends(self, off: Mapping[float, float]) -> Finding:
        slope = log_slope(list(off), list(off.values()))
        return Finding(
            "largest distance from (23)–(24), relative to ‖w₀‖: "
            + ", ".join(f"{gap:.2g} (η={eta:g})" for eta, gap in off.items())
            + f"; log-log slope {slope:.2f}",
            abs(slope - 1) <= 0.1,
        )


@dataclasses.dataclass(frozen=True)
class Regression:
    """Data and start of a run, with σ₁ ≥ … ≥ σ_d, zeros included, and the d x d orthogonal V of X = UΣVᵀ."""

    X: np.ndarray
    y: np.ndarray
    w0: np.ndarray
    sigma: np.ndarray
    V: np.ndarray

    @classmethod
    def of(cls, run: af.Run) -> Regression:
        X, y = examples(run)
        _, sigma, Vt = np.linalg.svd(X)
        zeros = np.zeros(X.shape[1] - len(sigma))
        return cls(X, y, run.curves["weights"][0].values, np.concatenate([sigma, zeros]), Vt.T)

    @property
    def n(self) -> int:
        return len(self.y)

    @property
    def least(self) -> np.ndarray:
        """X⁺y."""
        return af.theory.min_l2(self.X, self.y)

    @property
    def projection(self) -> np.ndarray:
        """The point of {w : Xw = y} nearest to w₀."""
        return self.w0 - af.theory.min_l2(self.X, self.X @ self.w0 - self.y)

    def from_projection(self, w: np.ndarray) -> float:
        """The distance of w from there, relative to ‖w₀‖."""
        return float(np.linalg.norm(w - self.projection) / np.linalg.norm(self.w0))


def closed_form(run: af.Run, t: np.ndarray, factor: float = 1.0) -> np.ndarray:
    """(23)–(24) for the data, start and λ of a run: zᵢ(t), one row a time, with factor·σᵢ² for σᵢ²."""
    posed, decay = Regression.of(run), run.spec["penalty"]["strength"]
    fast = factor * posed.sigma**2
    start, best = posed.w0 @ posed.V, posed.least @ posed.V
    end = fast / (fast + decay) * best  # 0 where σᵢ = 0, as in (24)
    return end + np.exp(-np.outer(t, fast + decay)) * (start - end)


def coordinate_error(run: af.Run, factor: float = 1.0) -> float:
    """The largest |zᵢ(t) − (23)–(24)| of a run, relative to max over t of |zᵢ(t)|."""
    exact = closed_form(run, run.curves["time"].values, factor)
    seen = run.curves["weights"].values @ Regression.of(run).V
    return float(np.max(np.abs(seen - exact) / np.max(np.abs(exact), axis=0)))


def decay_times(t: np.ndarray, z: np.ndarray) -> np.ndarray:
    """When each coordinate has come within 1/e of its first distance to its last value."""
    left = np.abs(z - z[-1]) / np.abs(z[0] - z[-1])
    first = np.argmax(left <= np.exp(-1), axis=0)
    columns = np.arange(z.shape[1])
    # An exponential is a straight line in (t, log): exact between two observations.
    above, below = np.log(left[first - 1, columns]), np.log(left[first, columns])
    return t[first - 1] + (t[first] - t[first - 1]) * (above + 1) / (above - below)


def _distance_from_closed_form(run: af.Run) -> float:
    """The largest ‖w(t) − (23)–(24)‖ of a run, relative to ‖w₀‖."""
    posed = Regression.of(run)
    exact = closed_form(run, run.curves["time"].values) @ posed.V.T
    apart = np.linalg.norm(run.curves["weights"].values - exact, axis=1)
    return float(np.max(apart) / np.linalg.norm(posed.w0))


def _show_coordinates(ax: Axes, run: af.Run, posed: Regression) -> None:
    """z(t) of a run, and by (23)–(24)."""
    curves = run.curves.isel(time=slice(1, None))
    t, n = curves["time"].values, posed.n
    exact, seen = closed_form(run, t), curves["weights"].values @ posed.V
    for i in range(exact.shape[1]):
        style = {"color": "#0072B2", "ls": "-", "lw": 1.6} if i < n else {"color": "0.45", "ls": "--", "lw": 1.0}
        name = {0: "(23): orthogonal to the manifold", n: "(24): along it"}.get(i)
        ax.plot(t, exact[:, i], **style, label=name)
        dots = {"ls": "", "marker": "o", "ms": 3.5, "mfc": "none", "color": style["color"], "markevery": 6}
        ax.plot(t, seen[:, i], **dots, label="gradient flow" if i == 0 else None)
    ax.set(ylabel=r"coordinates $z_i = (V^\top w)_i$")


def _show_distances(ax: Axes, flow: af.Run, free: af.Run, posed: Regression) -> None:
    """How far w(t) is from the projection of w₀ and from the least norm."""
    dotted: dict[str, Any] = {"color": "0.2", "ls": ":"}
    for run, goal, style, name in (
        (flow, posed.projection, af.plot.TRAIN, r"from $\mathcal{P}_\mathcal{M}(w_0)$"),
        (flow, posed.least, af.plot.TEST, r"from $X^+y$"),
        (free, posed.projection, dotted, r"$\lambda=0$: from $\mathcal{P}_\mathcal{M}(w_0)$"),
    ):
        curves = run.curves.isel(time=slice(1, None))
        distance = np.linalg.norm(curves["weights"].values - goal, axis=1) / np.linalg.norm(posed.w0)
        ax.plot(curves["time"], distance, **style, label=name)
    ax.set(yscale="log", ylim=(1e-5, 3), ylabel=r"distance of $w(t)$, relative to $\|w_0\|$")


def _show_step_sizes(ax: Axes, off: Mapping[float, float]) -> None:
    """How far descents are from (23)–(24)."""
    eta, gap = np.array(list(off)), np.array(list(off.values()))
    ax.loglog(eta, gap, "ko", mfc="none", label=r"$\max_t\|w_\eta(t)-w(t)\|/\|w_0\|$")
    ax.loglog(eta, gap[-1] * eta / eta[-1], color="0.5", ls="--", label="slope 1")
    ax.set(xlabel=r"step size $\eta$ of gradient descent", ylabel="largest distance from (23)–(24)")
    ax.set_xticks(eta, [f"{step:g}" for step in eta])
    ax.set_yticks(gap, [f"{g:.2g}" for g in gap])
    ax.minorticks_off()
