"""App. C, (23)–(24): linear regression, where both phases are known in closed form."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

import afterfit as af
from afterfit.papers import Entry, Finding, claim, control, correction, once, run_all
from afterfit.papers._measure import examples, power_law
from afterfit.papers.boursier2025 import PAPER
from afterfit.papers.boursier2025.decays import like

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
        "The paper states (23)–(24) for F(w) = ‖Xw − y‖²; as printed they are those of ½‖Xw − y‖², as in the other "
        "rows. Descents were run with steps four times as large before, to t = 1/λ, and gave an exponent of 1.06 in η: "
        "what it is off is the next order in η. Since the largest distance comes early, they now stop at t = 0.1/λ."
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
                eta: flow.set({"dynamics": {"kind": "GradientDescent", "lr": eta, "steps": round(0.1 / decay / eta)}})
                for eta in (lr / 2**k for k in range(2, 6))
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
        return _follows(flow)

    @control(follows, "(23) with 2σᵢ² for σᵢ²")
    def not_at_twice_the_rate(self, flow: af.Run) -> Finding:
        return _follows(flow, 2.0, 2.0)

    @claim(
        "gradient flow on ‖Xw − y‖², the F that is printed, follows (23)–(24)",
        says="F(w) = ‖Xw − y‖² with the same (23)–(24)",
    )
    def follows_as_printed(self, printed: af.Run) -> Finding:
        return _follows(printed)

    @correction(
        follows_as_printed,
        "(23) for F(w) = ‖Xw − y‖² has 2σᵢ² for σᵢ², in the rate and in zᵢ^∞ = 2σᵢ²zᵢ*/(2σᵢ² + λ)",
        why="∇F(w) = 2Xᵀ(Xw − y), so żᵢ = −2σᵢ²(zᵢ − zᵢ*) − λzᵢ: rate and fixed point both have 2σᵢ². As printed "
        "they are those of ½‖Xw − y‖².",
        touches="No: which directions are fast and which slow, and the two limits for λ → 0, are the same.",
    )
    def follows_with_two(self, printed: af.Run) -> Finding:
        found, rate_only = _follows(printed, 2.0, 2.0), coordinate_error(printed, 2.0, 1.0)
        return Finding(f"{found.measured} (with the rate alone changed {rate_only:.1g})", found.holds)

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

    @control(two_times, "the flow of ‖Xw − y‖², whose rates are 2σᵢ² + λ")
    def other_times(self, printed: af.Run, posed: Regression) -> Finding:
        return self.two_times(printed, posed)

    @claim("unregularised flow ends at the projection of w₀ on the manifold", says="equality")
    def projects(self, free: af.Run, posed: Regression) -> Finding:
        gap = posed.from_projection(free.params["weights"])
        return Finding(
            f"distance at t={free.spec['dynamics']['until']:g}, relative to ‖w₀‖: {gap:.1g}; "
            f"w₀ itself is at {posed.from_projection(posed.w0):.2g}",
            gap <= 1e-6,
        )

    @control(projects, "the flow with weight decay")
    def does_not_project(self, flow: af.Run, posed: Regression) -> Finding:
        return self.projects(flow, posed)

    @once
    def midway(self, flow: af.Run, posed: Regression, progress: bool | None) -> dict[float, np.ndarray]:
        """w(t) by λ, midway on a log axis between 1/σₙ² and 1/λ: e^{−σₙ²t} and λt are then both small."""
        until = {decay: 1 / (posed.sigma[posed.n - 1] * np.sqrt(decay)) for decay in (1e-3, 1e-4, 1e-5, 1e-6)}
        runs = {
            f"{decay:g}": flow.experiment.set({"penalty.strength": decay, "dynamics.until": t, "observations": 2})
            for decay, t in until.items()
        }
        ends = run_all(runs, f"{self.id}: midway", progress).values()
        return {decay: end.params["weights"] for decay, end in zip(until, ends, strict=True)}

    @claim(
        "between the two times the iterates are near that projection as λ → 0",
        says="(z₁*, …, zₙ*, zₙ₊₁(0), …, z_d(0)) for λ → 0",
    )
    def passes_the_projection(self, midway: Mapping[float, np.ndarray], posed: Regression) -> Finding:
        return _tends_to(midway, posed.projection, posed)

    @control(passes_the_projection, "the minimum-norm solution in its place")
    def not_yet_the_least_norm(self, midway: Mapping[float, np.ndarray], posed: Regression) -> Finding:
        return _tends_to(midway, posed.least, posed)

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

    @control(ends_at_least_norm, "the flow without weight decay")
    def ends_elsewhere(self, free: af.Run, posed: Regression) -> Finding:
        return self.ends_at_least_norm(free, posed)

    @once
    def from_the_rows(self, free: af.Run, posed: Regression, progress: bool | None) -> af.Run:
        """The unregularised flow from a start in the range of Xᵀ, as long as the other."""
        start = posed.V[:, : posed.n] @ np.ones(posed.n)
        start *= np.linalg.norm(posed.w0) / np.linalg.norm(start)
        return af.run_experiment(
            dataclasses.replace(free.experiment, init=af.inits.From({"weights": start})), progress=progress
        )

    @claim(
        "the limits of the two phases differ unless w₀ = 0",
        says="Those two points [P_M(w₀) and X⁺y] are different (unless w₀ = 0) (§5)",
    )
    def differ_unless_0(self, from_the_rows: af.Run) -> Finding:
        return _differ(from_the_rows)

    @correction(
        differ_unless_0,
        "they differ unless w₀ is in the range of Xᵀ",
        why="P_M(w₀) = X⁺y + P_{Ker X}w₀. The second term is 0 for every w₀ orthogonal to Ker X, not for w₀ = 0 alone.",
        touches="No: for n < d such starts are a subspace of dimension n, which a random start misses.",
        where="§5",
    )
    def differ_off_the_rows(self, free: af.Run, from_the_rows: af.Run) -> Finding:
        off, on = _differ(free), _differ(from_the_rows)
        return Finding(f"{off.measured}, from the start of the other runs", off.holds and not on.holds)

    @claim(
        "proof of Lemma 7: dF_λ/dt ≤ −‖∇F‖² + λ‖w‖‖∇F‖",
        says="dF_λ(w^λ)/dt = −‖∇F_λ‖² ≤ −‖∇F‖² + λ‖w^λ‖‖∇F‖ (App. B.4)",
    )
    def lowers(self, flow: af.Run, posed: Regression) -> Finding:
        return _lowers(flow, posed, 1.0)

    @correction(
        lowers,
        "dF_λ/dt ≤ −‖∇F‖² + 2λ‖w‖‖∇F‖",
        why="−‖∇F + λw‖² = −‖∇F‖² − 2λ⟨∇F, w⟩ − λ²‖w‖²: the product has a 2, and ⟨∇F, w⟩ may be −‖∇F‖‖w‖.",
        touches="No: R₁ becomes 2R₁, in Lemma 7 and in the proof of Prop. 4, where R₁ → 0 all the same.",
        where="App. B.4, Lemma 7",
    )
    def lowers_with_two(self, flow: af.Run, posed: Regression) -> Finding:
        return _lowers(flow, posed, 2.0)

    @claim(
        "gradient descent follows the flow to first order in its step size",
        says="the flow is the limit of small steps (the closed form is of the flow)",
    )
    def descends(self, off: Mapping[float, float]) -> Finding:
        return _first_order(off)

    @control(descends, "against the flow with rates s + ηs²/2, which descent follows to second order")
    def descends_better(self, descents: Mapping[float, af.Run]) -> Finding:
        return _first_order({eta: _distance_from_closed_form(run, eta) for eta, run in descents.items()})


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


def closed_form(run: af.Run, t: np.ndarray, rate: float = 1.0, end: float = 1.0, eta: float = 0.0) -> np.ndarray:
    """(23)–(24) for the data, start and λ of a run: zᵢ(t), one row a time.

    `rate` and `end` are factors of σᵢ² in the rate s and in zᵢ^∞; with `eta` the rate is s + ηs²/2, for descent.
    """
    posed, decay = Regression.of(run), run.spec["penalty"]["strength"]
    start, best = posed.w0 @ posed.V, posed.least @ posed.V
    final = end * posed.sigma**2 / (end * posed.sigma**2 + decay) * best  # 0 where σᵢ = 0, as in (24)
    s = rate * posed.sigma**2 + decay
    return final + np.exp(-np.outer(t, s + eta * s**2 / 2)) * (start - final)


def coordinate_error(run: af.Run, rate: float = 1.0, end: float = 1.0) -> float:
    """The largest |zᵢ(t) − (23)–(24)| of a run, relative to max over t of |zᵢ(t)|."""
    exact = closed_form(run, run.curves["time"].values, rate, end)
    seen = run.curves["weights"].values @ Regression.of(run).V
    return float(np.max(np.abs(seen - exact) / np.max(np.abs(exact), axis=0)))


def _follows(run: af.Run, rate: float = 1.0, end: float = 1.0) -> Finding:
    """Whether a flow is (23)–(24) to 10⁻⁶: a thousand times the tolerance of its steps."""
    error = coordinate_error(run, rate, end)
    return Finding(
        f"largest |error of zᵢ(t)|/max|zᵢ|, over all i and {run.curves.sizes['time']} times: {error:.1g}",
        error <= 1e-6,
    )


def _tends_to(midway: Mapping[float, np.ndarray], goal: np.ndarray, posed: Regression) -> Finding:
    """Whether w at t = 1/(σₙ√λ) comes to a point like √λ, which is λt but for a factor, by (24)."""
    gaps = np.array([np.linalg.norm(w - goal) / np.linalg.norm(posed.w0) for w in midway.values()])
    law = power_law(list(midway), gaps)
    return Finding(
        "distance at t = 1/(σₙ√λ), relative to ‖w₀‖: "
        + ", ".join(f"{gap:.2g} (λ={decay:g})" for gap, decay in zip(gaps, midway, strict=True))
        + f"; exponent of λ {law}",
        like(law, 0.5),
    )


def _differ(free: af.Run) -> Finding:
    """Whether the end of an unregularised flow is apart from X⁺y, by more than its tolerance."""
    posed = Regression.of(free)
    apart = np.linalg.norm(free.params["weights"] - posed.least) / np.linalg.norm(posed.w0)
    return Finding(
        f"‖lim w^GF − X⁺y‖/‖w₀‖ = {apart:.2g}, where ‖w₀‖ = {np.linalg.norm(posed.w0):.2g}", bool(apart > 1e-6)
    )


def _lowers(flow: af.Run, posed: Regression, factor: float) -> Finding:
    """Whether −‖∇F_λ‖² ≤ −‖∇F‖² + factor·λ‖w‖‖∇F‖ on the way from 0 to X⁺y, along which F pulls w outwards."""
    decay = flow.spec["penalty"]["strength"]
    shares = []
    for part in np.linspace(0.1, 0.9, 9):
        w = part * posed.least
        slope = posed.X.T @ (posed.X @ w - posed.y)
        size = np.linalg.norm(slope)
        gained = size**2 - np.sum((slope + decay * w) ** 2)
        shares.append(float(gained / (factor * decay * np.linalg.norm(w) * size)))
    return Finding(
        f"‖∇F‖² − ‖∇F_λ‖² is {min(shares):.3g} to {max(shares):.3g} times {factor:g}·λ‖w‖‖∇F‖ at 9 points",
        max(shares) <= 1,
    )


def _first_order(off: Mapping[float, float]) -> Finding:
    """Whether distances fall like η.

    The next order changes them by up to ησ₁²/4, 3 % at the largest η and next to nothing at the least of four halvings.
    """
    law = power_law(list(off), list(off.values()))
    return Finding(
        "largest distance from (23)–(24), relative to ‖w₀‖: "
        + ", ".join(f"{gap:.2g} (η={eta:g})" for eta, gap in off.items())
        + f"; exponent of η {law}",
        like(law, 1.0),
    )


def decay_times(t: np.ndarray, z: np.ndarray) -> np.ndarray:
    """When each coordinate has come within 1/e of its first distance to its last value."""
    left = np.abs(z - z[-1]) / np.abs(z[0] - z[-1])
    first = np.argmax(left <= np.exp(-1), axis=0)
    columns = np.arange(z.shape[1])
    # An exponential is a straight line in (t, log): exact between two observations.
    above, below = np.log(left[first - 1, columns]), np.log(left[first, columns])
    return t[first - 1] + (t[first] - t[first - 1]) * (above + 1) / (above - below)


def _distance_from_closed_form(run: af.Run, eta: float = 0.0) -> float:
    """The largest ‖w(t) − (23)–(24)‖ of a run, relative to ‖w₀‖; with `eta`, from the rates that descent has."""
    posed = Regression.of(run)
    exact = closed_form(run, run.curves["time"].values, eta=eta) @ posed.V.T
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
