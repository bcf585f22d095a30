"""App. C, (23)–(24): linear regression, where both phases are known in closed form."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np
from matplotlib.figure import Figure

from afterfit import dynamics, inits, models, penalties, tasks, theory
from afterfit.experiment import Experiment
from afterfit.papers.gallery import Entry, Finding, run_all
from afterfit.papers.measure import log_slope
from afterfit.plot import TEST, TRAIN, legend_below, log_time_axes, mark_phases
from afterfit.run import Run

__all__ = ["Linear"]


class Linear(Entry):
    id = "boursier2025/linear"
    title = "Linear regression: fast onto the manifold, slowly along it"
    where = "App. C, (23)–(24)"
    about = (
        "Linear regression with fewer examples than dimensions and weight decay λ, by gradient flow and by gradient "
        "descent, against the closed form (23)–(24) in the basis z = Vᵀw of the singular value decomposition "
        "X = UΣVᵀ: coordinates orthogonal to the manifold {w : Xw = y} move at the rate σᵢ² + λ, those along it at "
        "the rate λ. The formula is the one for F = ½‖Xw − y‖², which the runs use. The paper prints F = ‖Xw − y‖², "
        "whose rates are 2σᵢ² + λ; one run shows the difference."
    )
    claims = (
        "gradient flow on ½‖Xw − y‖² follows (23)–(24)",
        "gradient flow on ‖Xw − y‖², the F that is printed, follows (23)–(24)",
        "orthogonal coordinates move first, at times 1/σᵢ², and parallel ones at 1/λ",
        "unregularised flow ends at the projection of w₀ on the manifold",
        "between the two times the iterates are near that projection as λ → 0",
        "the end is near the minimum-norm solution X⁺y",
        "gradient descent follows the flow to first order in its step size",
    )

    def experiments(self, scale: str) -> dict[str, Experiment]:
        if scale == "paper":
            n, d, sparsity, decay, lr = 20, 50, 5, 1e-3, 4e-3
        else:
            n, d, sparsity, decay, lr = 5, 12, 2, 1e-2, 1.6e-2
        flow = Experiment(
            task=tasks.SparseRegression(n=n, d=d, sparsity=sparsity, reduction="half_sum"),
            model=models.Linear(),
            penalty=penalties.L2(decay),
            # Simulated: left to itself the flow of linear regression would be followed in closed form.
            dynamics=dynamics.GradientFlow(until=10 / decay, first=1e-3, rtol=1e-9, atol=1e-12, method="explicit"),
            init=inits.Gaussian(1.0),
            observations=100,
        )
        descent = {
            f"descent η={eta:g}": flow.set(
                {"dynamics": {"kind": "GradientDescent", "lr": eta, "steps": round(1 / decay / eta)}}
            )
            for eta in (lr / 2**k for k in range(4))
        }
        return {
            "flow": flow,
            "flow on ‖Xw−y‖²": flow.set({"task.reduction": "sum"}),
            "flow λ=0": flow.set({"penalty.strength": 0.0, "dynamics.until": 1 / decay}),
            **descent,
        }

    def picture(self, runs: Mapping[str, Run]) -> Figure:
        run, free = runs["flow"], runs["flow λ=0"]
        X, y, w0 = _given(run)
        n, V = len(y), _svd(X)[1]
        curves = run.curves.isel(time=slice(1, None))
        t = curves["time"].values
        figure = Figure(figsize=(13.5, 4.4), layout="constrained")
        left, middle, right = figure.subplots(1, 3, width_ratios=(4, 4, 3))
        exact = closed_form(run, t)
        seen = curves["weights"].values @ V
        for i in range(exact.shape[1]):
            fast = i < n
            style = {"color": "#0072B2", "ls": "-", "lw": 1.6} if fast else {"color": "0.45", "ls": "--", "lw": 1.0}
            name = {0: "(23): orthogonal to the manifold", n: "(24): along it"}.get(i)
            left.plot(t, exact[:, i], **style, label=name)
            dots = {"ls": "", "marker": "o", "ms": 3.5, "mfc": "none", "color": style["color"], "markevery": 6}
            left.plot(t, seen[:, i], **dots, label="gradient flow" if i == 0 else None)
        left.set(ylabel=r"coordinates $z_i = (V^\top w)_i$")
        reached, least = projection(X, y, w0), theory.min_l2(X, y)
        size = np.linalg.norm(w0)
        for goal, style, name in (
            (reached, TRAIN, r"from $\mathcal{P}_\mathcal{M}(w_0)$"),
            (least, TEST, r"from $X^+y$"),
        ):
            middle.plot(t, np.linalg.norm(curves["weights"].values - goal, axis=1) / size, **style, label=name)
        later = free.curves.isel(time=slice(1, None))
        middle.plot(
            later["time"],
            np.linalg.norm(later["weights"].values - reached, axis=1) / size,
            color="0.2",
            ls=":",
            label=r"$\lambda=0$: from $\mathcal{P}_\mathcal{M}(w_0)$",
        )
        middle.set(yscale="log", ylim=(1e-5, 3), ylabel=r"distance of $w(t)$, relative to $\|w_0\|$")
        log_time_axes(left, middle)
        for ax in (left, middle):
            mark_phases(ax, run.verdict)
        eta, gap = _descent_gaps(runs)
        right.loglog(eta, gap, "ko", mfc="none", label=r"$\max_t\|w_\eta(t)-w(t)\|/\|w_0\|$")
        right.loglog(eta, gap[-1] * eta / eta[-1], color="0.5", ls="--", label="slope 1")
        right.set(xlabel=r"step size $\eta$ of gradient descent", ylabel="largest distance from (23)–(24)")
        right.set_xticks(eta, [f"{step:g}" for step in eta])
        right.set_yticks(gap, [f"{g:.2g}" for g in gap])
        right.minorticks_off()
        legend_below(left, middle, right)
        return figure

    def check(self, runs: Mapping[str, Run], scale: str, progress: bool | None) -> Iterator[Finding]:
        run, printed, free = runs["flow"], runs["flow on ‖Xw−y‖²"], runs["flow λ=0"]
        decay = run.spec["penalty"]["strength"]
        error = coordinate_error(run)
        yield Finding(
            self.claims[0],
            "zᵢ(t) = zᵢ^∞ + e^{−(σᵢ²+λ)t}(zᵢ(0) − zᵢ^∞), zᵢ^∞ = σᵢ²zᵢ*/(σᵢ² + λ); zᵢ(t) = e^{−λt}zᵢ(0) along M",
            f"largest |error of zᵢ(t)|/max|zᵢ|, over all i and {run.curves.sizes['time']} times: {error:.1g}",
            error <= 1e-6,
        )
        wrong, right = coordinate_error(printed), coordinate_error(printed, factor=2.0)
        yield Finding(
            self.claims[1],
            "F(w) = ‖Xw − y‖² with the same (23)–(24)",
            f"the same error is {wrong:.2g}; with 2σᵢ² for σᵢ² in (23), the rate of this F, it is {right:.1g}",
            wrong <= 1e-6,
        )
        X, y, w0 = _given(run)
        n, (sigma, V) = len(y), _svd(X)
        times = decay_times(run.curves["time"].values, run.curves["weights"].values @ V)
        fast, slow = times[:n] * (sigma[:n] ** 2 + decay), times[n:] * decay
        yield Finding(
            self.claims[2],
            "rates σᵢ² + λ and λ",
            f"a distance to the end falls by e at t = {times[:n].min():.3g} to {times[:n].max():.3g} (orthogonal) and "
            f"{times[n:].min():.4g} to {times[n:].max():.4g} (parallel); times the rate: {fast.min():.3f} to "
            f"{fast.max():.3f} and {slow.min():.3f} to {slow.max():.3f}",
            bool(np.all(np.abs(np.concatenate([fast, slow]) - 1) <= 0.01) and times[:n].max() < 0.01 * times[n:].min()),
        )
        reached, size = projection(X, y, w0), np.linalg.norm(w0)
        gap = np.linalg.norm(free.params["weights"] - reached) / size
        yield Finding(
            self.claims[3],
            "equality",
            f"distance at t={free.spec['dynamics']['until']:g}, relative to ‖w₀‖: {gap:.1g}; "
            f"w₀ itself is at {np.linalg.norm(w0 - reached) / size:.2g}",
            bool(gap <= 1e-6),
        )
        # Midway, on a log axis, between 1/σₙ² and 1/λ: e^{−σₙ²t} and λt are then both small.
        midway = {
            strength: Experiment.from_dict(run.spec).set(
                {
                    "penalty.strength": strength,
                    "dynamics.until": 1 / (sigma[n - 1] * np.sqrt(strength)),
                    "observations": 2,
                }
            )
            for strength in (1e-2, 1e-3, 1e-4, 1e-5)
        }
        ends = run_all({f"{s:g}": experiment for s, experiment in midway.items()}, f"{self.id}: midway", progress)
        gaps = np.array([np.linalg.norm(end.params["weights"] - reached) / size for end in ends.values()])
        yield Finding(
            self.claims[4],
            "(z₁*, …, zₙ*, zₙ₊₁(0), …, z_d(0)) for λ → 0",
            "distance at t = 1/(σₙ√λ), relative to ‖w₀‖: "
            + ", ".join(f"{g:.2g} (λ={strength:g})" for g, strength in zip(gaps, midway, strict=True)),
            bool(np.all(np.diff(gaps) < 0) and gaps[-1] <= 0.01),
        )
        least = theory.min_l2(X, y)
        end = run.params["weights"]
        orthogonal = np.linalg.norm((end - least) @ V[:, :n]) / np.linalg.norm(least)
        parallel = np.linalg.norm(end @ V[:, n:]) / np.linalg.norm(w0 @ V[:, n:])
        bound = decay / (sigma[n - 1] ** 2 + decay)
        yield Finding(
            self.claims[5],
            "(z₁*, …, zₙ*, 0, …, 0), up to zᵢ* − zᵢ^∞ = λzᵢ*/(σᵢ² + λ)",
            f"at t={run.spec['dynamics']['until']:g} the orthogonal part is {orthogonal:.2g}·‖X⁺y‖ from X⁺y (at most "
            f"{bound:.2g} by (23)), the parallel part has {parallel:.2g} of its start left (e^−10 = {np.exp(-10):.2g})",
            bool(orthogonal <= 1.001 * bound and parallel <= 1e-4),
        )
        eta, gap = _descent_gaps(runs)
        slope = log_slope(eta, gap)
        yield Finding(
            self.claims[6],
            "the flow is the limit of small steps (the closed form is of the flow)",
            "largest distance from (23)–(24), relative to ‖w₀‖: "
            + ", ".join(f"{g:.2g} (η={step:g})" for g, step in zip(gap, eta, strict=True))
            + f"; log-log slope {slope:.2f}",
            abs(slope - 1) <= 0.1,
        )


def closed_form(run: Run, t: np.ndarray, factor: float = 1.0) -> np.ndarray:
    """(23)–(24) for the data, start and λ of a run: zᵢ(t), one row a time, with factor·σᵢ² for σᵢ²."""
    X, y, w0 = _given(run)
    decay = run.spec["penalty"]["strength"]
    sigma, V = _svd(X)
    fast = factor * sigma**2
    start, best = w0 @ V, theory.min_l2(X, y) @ V
    end = fast / (fast + decay) * best  # 0 where σᵢ = 0, as in (24)
    return end + np.exp(-np.outer(t, fast + decay)) * (start - end)


def coordinate_error(run: Run, factor: float = 1.0) -> float:
    """The largest |zᵢ(t) − (23)–(24)| of a run, relative to max over t of |zᵢ(t)|."""
    t, V = run.curves["time"].values, _svd(_given(run)[0])[1]
    exact = closed_form(run, t, factor)
    return float(np.max(np.abs(run.curves["weights"].values @ V - exact) / np.max(np.abs(exact), axis=0)))


def decay_times(t: np.ndarray, z: np.ndarray) -> np.ndarray:
    """When each coordinate has come within 1/e of its first distance to its last value."""
    left = np.abs(z - z[-1]) / np.abs(z[0] - z[-1])
    first = np.argmax(left <= np.exp(-1), axis=0)
    columns = np.arange(z.shape[1])
    # An exponential is a straight line in (t, log): exact between two observations.
    above, below = np.log(left[first - 1, columns]), np.log(left[first, columns])
    return t[first - 1] + (t[first] - t[first - 1]) * (above + 1) / (above - below)


def projection(X: np.ndarray, y: np.ndarray, w: np.ndarray) -> np.ndarray:
    """The point of {w : Xw = y} nearest to w."""
    return w - theory.min_l2(X, X @ w - y)


def _given(run: Run) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """X, y and w₀ of a run."""
    data = Experiment.from_dict(run.spec).draw()
    return data.inputs, data.targets, run.curves["weights"][0].values


def _svd(X: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """σ₁ ≥ … ≥ σ_d, zeros included, and the d x d orthogonal V of X = UΣVᵀ."""
    _, sigma, Vt = np.linalg.svd(X)
    return np.concatenate([sigma, np.zeros(X.shape[1] - len(sigma))]), Vt.T


def _descent_gaps(runs: Mapping[str, Run]) -> tuple[np.ndarray, np.ndarray]:
    """The step sizes, and the largest distance of each descent from (23)–(24), relative to ‖w₀‖."""
    steps, gaps = [], []
    for name, run in runs.items():
        if name.startswith("descent"):
            X, _, w0 = _given(run)
            exact = closed_form(run, run.curves["time"].values) @ _svd(X)[1].T
            steps.append(run.spec["dynamics"]["lr"])
            gaps.append(np.max(np.linalg.norm(run.curves["weights"].values - exact, axis=1)) / np.linalg.norm(w0))
    return np.array(steps), np.array(gaps)
