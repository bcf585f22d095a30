"""Thm 3.4 and Cor. 3.6: until (1/λ)·log α a diagonal net is the kernel classifier."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping

import jax
import numpy as np
from matplotlib.figure import Figure

from afterfit import models, theory
from afterfit.experiment import Experiment
from afterfit.papers.gallery import Entry, Finding
from afterfit.papers.lyu2023.regimes import by_share, margin_flows, mark_shares, scale_of, weights_of
from afterfit.papers.measure import log_slope
from afterfit.plot import legend_below, log_time_axes, mark_phases
from afterfit.run import Run
from afterfit.theory.instance import instance_of
from afterfit.theory.kernel import kernel_predictor

__all__ = ["Thm34"]


class Thm34(Entry):
    id = "lyu2023/thm3.4"
    title = "Until (1/λ)·log α a diagonal net is the classifier of largest L2 margin"
    where = "Thm 3.4, Cor. 3.6, App. C.2"
    about = (
        "Gradient flow on u² − v² with the exponential loss and weight decay λ = 1/α, from u = v = (α, …, α), stopped "
        "at t = (1 − c)/λ·log α for rising α. The direction of w is compared with that of largest L2 margin, and the "
        "outputs with Z(α)·⟨∇f(θ̄; x), h*⟩. The theorem prints Z = log(α^c/λ)/γ_ntk. Its proof has log(1/𝓛) = "
        "log A − 2(L−1)(1−c)·log α + O(log log A) with A = α^{2(L−1)}/λ, which is log(α^{2(L−1)c}/λ) and not the "
        "log(α^c/λ) of the next line; the two agree for L = 3/2 only. Here L = 2. Inputs are Gaussian and labels those "
        "of a 3-sparse teacher. F⁻¹ is the inverse of x ↦ x·log x."
    )
    claims = (
        "Cor. 3.6: w/‖w‖₂ tends to the direction of largest L2 margin",
        "the kernel classifier of Thm 3.4 is that of largest L2 margin, with γ_ntk = 2√2·γ₂",
        "f/Z tends to ⟨∇f(θ̄; x), h*⟩ with the printed Z = log(α^c/λ)/γ_ntk",
        "f/Z tends to ⟨∇f(θ̄; x), h*⟩ with Z = log(α^{2(L−1)c}/λ)/γ_ntk",
        "the loss is below (8), Lemma C.4",
        "the loss is above (17), Lemma C.7",
        "e^{λt}θ/α − θ̄ is of order α^{−L}e^{Lλt}·log A (Lemma C.5)",
    )

    _shares = (0.2, 0.5, 0.8)  # 1 − c

    def experiments(self, scale: str) -> dict[str, Experiment]:
        return margin_flows(scale, self._shares)

    def picture(self, runs: Mapping[str, Run]) -> Figure:
        figure = Figure(figsize=(13.5, 4.8), layout="constrained")
        path, direction, size = figure.subplots(1, 3)
        headline = next(iter(runs.values()))
        widest, alpha = _unit(_widest(headline)), scale_of(headline)
        curves = headline.curves.isel(time=slice(1, None))
        units = curves["weights"].values / np.linalg.norm(curves["weights"].values, axis=1)[:, None]
        path.plot(
            curves["time"],
            np.linalg.norm(units - widest, axis=1),
            color="0.2",
            label=rf"$\alpha=10^{{{np.log10(alpha):g}}}$",
        )
        mark_shares(path, headline, self._shares)
        path.set(yscale="log", ylabel=r"distance of $w/\|w\|_2$ from the largest $L^2$ margin")
        log_time_axes(path)
        mark_phases(path, headline.verdict)
        for (share, ends), marker, grey in zip(
            _ends(runs).items(), ("o", "s", "^"), ("0.65", "0.4", "0.0"), strict=True
        ):
            c, alphas = 1 - share, np.array([end.alpha for end in ends])
            style = {"color": grey, "marker": marker, "mfc": "none", "label": f"c = {c:g}"}
            direction.loglog(alphas, [end.off for end in ends], **style)
            size.semilogx(alphas, [end.gamma * end.size for end in ends], **style, ls="")
            for factor, dashes in ((1, ":"), (2, "-")):
                size.semilogx(alphas, (factor * c + 1) * np.log(alphas), color=grey, ls=dashes, lw=1.2)
        size.plot([], [], "k:", label=r"printed: $\log(\alpha^{c}/\lambda)$")
        size.plot([], [], "k-", lw=1.2, label=r"$\log(\alpha^{2c}/\lambda)$")
        direction.set(ylabel=r"distance of $w/\|w\|_2$ from the largest $L^2$ margin")
        size.set(ylabel=r"$\gamma_\mathrm{ntk}\|h\|_2$, and $\gamma_\mathrm{ntk}Z$")
        for ax in (direction, size):
            ax.set(xlabel=r"scale $\alpha$ of the start", title=r"at $t=(1-c)/\lambda\cdot\log\alpha$")
        legend_below(*figure.axes)
        return figure

    def check(self, runs: Mapping[str, Run], scale: str, progress: bool | None) -> Iterator[Finding]:
        groups = _ends(runs)
        every = [end for ends in groups.values() for end in ends]
        largest = {share: ends[-1] for share, ends in groups.items()}
        reached = f"α={every[-1].alpha:g}"
        # A loss that falls like e^{−margin} evens the margins out to within 1/log(1/𝓛): slow, but without a floor.
        even = {share: [end.off * -end.log_loss for end in ends] for share, ends in groups.items()}
        products = [product for group in even.values() for product in group]
        yield Finding(
            self.claims[0],
            "for every c in (0, 1), as α → ∞",
            f"distance from α={every[0].alpha:g} to {every[-1].alpha:g}: "
            + ", ".join(f"{ends[0].off:.2g} to {ends[-1].off:.2g} (c={1 - share:g})" for share, ends in groups.items())
            + f"; times log(1/𝓛), which grows without end, {_range(products)}",
            all(np.all(np.diff([end.off for end in ends]) < 0) for ends in groups.values())
            and all(group[-1] <= 1.5 * group[0] for group in even.values()),
        )
        headline, first = next(iter(runs.values())), every[0]
        with jax.enable_x64(True):
            predictor = kernel_predictor(instance_of(headline))
            assert isinstance(predictor.model, models.LinearModel)
            kernel = np.asarray(predictor.model.weights(predictor.params))
        assert predictor.margin is not None
        apart = float(np.linalg.norm(_unit(kernel) - first.widest))
        ratio = predictor.margin / scale_of(headline) / first.gamma  # features at αθ̄ are α^{L−1} times those at θ̄
        yield Finding(
            self.claims[1],
            "∇f(θ̄; x) = (2x, −2x)",
            f"directions {apart:.1g} apart, γ_ntk/(2√2·γ₂) = {ratio:.6f}",
            apart <= 1e-6 and abs(ratio - 1) <= 1e-6,
        )
        fresh = np.asarray(Experiment.from_dict(headline.spec).draw().test_inputs)
        for claim, factor, says in (
            (self.claims[2], 1, "Z = log(α^c/λ)/γ_ntk, as printed"),
            (self.claims[3], 2, "Z = log(α^{2c}/λ)/γ_ntk for L = 2: what Lemmas C.4 and C.7 give"),
        ):
            rates = {share: factor * (1 - share) + 1 for share in groups}  # γ_ntk·Z = rate·log α
            over = {share: end.gamma * end.size / (rates[share] * np.log(end.alpha)) for share, end in largest.items()}
            # x·log x = y makes log x grow by q/(1 + q) of log y, q = log x: the log log A of the proof.
            slowed = {share: rates[share] * -end.log_loss / (1 - end.log_loss) for share, end in largest.items()}
            growth = {share: _growth(ends) / slowed[share] for share, ends in groups.items()}
            worst = max(end.worst_output(fresh, rates[share] * np.log(end.alpha)) for share, end in largest.items())
            yield Finding(
                claim,
                says,
                f"‖h‖/Z at {reached}: "
                + ", ".join(f"{share_of_z:.3f} (c={1 - share:g})" for share, share_of_z in over.items())
                + "; its growth with log α over that of Z, log log A allowed for: "
                + ", ".join(f"{ahead:.3f}" for ahead in growth.values())
                + f"; f/Z off by up to {worst:.2f} of its largest limit over {len(fresh)} fresh x",
                all(abs(ahead - 1) <= 0.03 for ahead in growth.values()),
            )
        above = [np.exp(end.log_loss) / end.upper() for end in every]
        yield Finding(
            self.claims[4],
            "𝓛 ≤ max{1/(1 + γ²A(1 − e^{−2(L−1)λt})/16(L−1)), e^{2(L−1)λt}/(F⁻¹(γ²A/8L) − 1)}",
            f"𝓛 over it, {len(every)} runs: {_range(above)}",
            max(above) <= 1,
        )
        printed, derived = ([np.exp(end.log_loss) / end.lower(power) for end in every] for power in (1, -1))
        n = headline.spec["task"]["n"]
        yield Finding(
            self.claims[5],
            "𝓛 ≥ min{n/F⁻¹(2G²Ae^{−2(L−1)λt}/nL), exp(1 − 2(L−1)λ)/n}",
            f"𝓛 over it, G the largest ‖∇f‖ that ε_max allows: {_range(printed)}; the proof's "
            f"F(1/n𝓛) ≤ 2G²A…/nL is 𝓛 ≥ 1/(n·F⁻¹), n² = {n**2} times lower, and over that it is {_range(derived)}",
            min(printed) >= 1,
        )
        orders = [end.moved / end.order for end in every]
        middle = groups[self._shares[1]]
        alphas = [end.alpha for end in middle]
        fall, expected = (log_slope(alphas, [getattr(end, name) for end in middle]) for name in ("moved", "order"))
        yield Finding(
            self.claims[6],
            "O(α^{−L}·log A)·e^{Lλt}; §3.2.1 prints the inverse, α^L·e^{−Lλt}, in its size",
            f"‖e^{{λt}}θ/α − θ̄‖ over α^{{−L}}e^{{Lλt}}·log A: {_range(orders)}; at c=0.5 it falls like "
            f"α^{fall:.2f}, α^{{−cL}}·log A like α^{expected:.2f}",
            max(orders) <= 1 and fall < -0.5,
        )


@dataclasses.dataclass(frozen=True)
class _End:
    """The end of a run, at t = (1 − c)/λ·log α, with what the theorem compares it to. L = 2."""

    X: np.ndarray
    y: np.ndarray
    widest: np.ndarray  # the direction of largest L2 margin
    gamma: float  # γ_ntk, the margin on the features (2x, −2x)
    alpha: float
    decay: float
    t: float
    w: np.ndarray
    moved: float  # ‖e^{λt}θ/α − θ̄‖

    @property
    def off(self) -> float:
        """‖w/‖w‖ − w₂*‖."""
        return float(np.linalg.norm(_unit(self.w) - self.widest))

    @property
    def size(self) -> float:
        """‖h‖: outputs ⟨w, x⟩ = ⟨(2x, −2x), h⟩ along h* = (w₂*, −w₂*)/√2 have ‖w‖ = 2√2·‖h‖."""
        return float(np.linalg.norm(self.w)) / (2 * np.sqrt(2))

    @property
    def log_loss(self) -> float:
        return float(np.log(np.mean(np.exp(-self.y * (self.X @ self.w)))))

    @property
    def A(self) -> float:
        """α^{2(L−1)}/λ."""
        return self.alpha**2 / self.decay

    @property
    def order(self) -> float:
        """α^{−L}·e^{Lλt}·log A."""
        return float(np.exp(2 * self.decay * self.t) / self.alpha**2 * np.log(self.A))

    def worst_output(self, fresh: np.ndarray, gamma_z: float) -> float:
        """max over fresh x of |f/Z − ⟨∇f(θ̄; x), h*⟩|, relative to the largest of the latter."""
        limit = 2 * np.sqrt(2) * self.widest  # the weights of ⟨∇f(θ̄; x), h*⟩
        off = fresh @ (self.w * self.gamma / gamma_z - limit)
        return float(np.max(np.abs(off)) / np.max(np.abs(fresh @ limit)))

    def upper(self) -> float:
        """(8)."""
        first = 1 / (1 - self.gamma**2 / 16 * self.A * np.expm1(-2 * self.decay * self.t))
        return float(max(first, np.exp(2 * self.decay * self.t) / (_inverse(self.gamma**2 / 16 * self.A) - 1)))

    def lower(self, power: int) -> float:
        """(17), with n^power/F⁻¹."""
        n = len(self.y)
        steepest = 2 * np.sqrt(2) * np.max(np.linalg.norm(self.X, axis=1)) + self.gamma / 2
        first = float(n) ** power / _inverse(steepest**2 / n * self.A * np.exp(-2 * self.decay * self.t))
        return float(min(first, np.exp(1 - 2 * self.decay) / n))


def _ends(runs: Mapping[str, Run]) -> dict[float, list[_End]]:
    """Where the runs ended, by their share of (1/λ)·log α and in the order of α. All have the same data."""
    headline = next(iter(runs.values()))
    data, widest = Experiment.from_dict(headline.spec).draw(), _widest(headline)
    gamma = 2 * np.sqrt(2) / float(np.linalg.norm(widest))

    def end(run: Run) -> _End:
        alpha, decay, t = scale_of(run), run.spec["penalty"]["strength"], run.spec["dynamics"]["until"]
        moved = np.exp(decay * t) / alpha * np.concatenate([run.params["plus"], run.params["minus"]]) - 1
        return _End(
            *(data.inputs, data.targets, _unit(widest), gamma, alpha, decay, t),
            weights_of(run),
            float(np.linalg.norm(moved)),
        )

    return {share: [end(run) for run in group] for share, group in by_share(runs, Thm34._shares).items()}


def _widest(run: Run) -> np.ndarray:
    data = Experiment.from_dict(run.spec).draw()
    return theory.max_l2_margin(data.inputs, data.targets)


def _unit(w: np.ndarray) -> np.ndarray:
    return w / np.linalg.norm(w)


def _growth(ends: list[_End]) -> float:
    """How much γ_ntk·‖h‖ grows with log α between the two largest α."""
    before, after = ends[-2:]
    return float(after.gamma * (after.size - before.size) / np.log(after.alpha / before.alpha))


def _inverse(y: float) -> float:
    """F⁻¹: x with x·log x = y."""
    from scipy.special import lambertw

    return float(np.exp(lambertw(y).real))


def _range(values: list[float]) -> str:
    return f"{min(values):.2g} to {max(values):.2g}"
