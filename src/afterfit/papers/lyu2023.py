"""Lyu, Jin, Li, Du, Lee and Hu 2023: a dichotomy of early and late phase implicit biases."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from afterfit import dynamics, inits, models, penalties, tasks
from afterfit.experiment import Experiment
from afterfit.papers.gallery import Entry, Finding
from afterfit.plot import TEST, TRAIN, log_time_axes, mark_phases
from afterfit.run import Run

__all__ = ["Fig1a", "Fig1b", "Fig2a", "Fig3"]


class Fig1a(Entry):
    id = "lyu2023/fig1a"
    title = "A diagonal net groks a sparse classifier"
    where = "Fig. 1a, §3.2.3"
    about = (
        "The diagonal net u² − v² learns the sign of a sum of three of 10⁵ inputs, up to their signs, from 256 "
        "examples, with the mean logistic loss, weight decay λ = 10⁻³ and all parameters equal at the start, of norm "
        "128. The early phase is the classifier of largest L2 margin, which needs of order 3d examples; weight decay "
        "ends it at a time of order (1/λ)·log α, and the classifier of largest L1 margin takes its place. The authors "
        "make 10⁶ steps of descent at rate 0.01, that is until t = 10⁴. Here it is gradient flow, which their theory "
        "is about and which needs no step for each 0.01 of time, until t = 2·10⁴; the first observation is at their "
        "first step. α is the initial norm, as in the authors' code: §3.2.3 writes α for one entry, here 0.29, whose "
        "logarithm is negative."
    )
    claims = (
        "training accuracy is 100 % at t < 1",
        "test accuracy is near 50 % until t ≈ 10³",
        "test accuracy is 100 % after the transition",
        "the transition is at a time of order (1/λ)·log α",
        "in the early phase the norm decays as α·exp(−λt)",
        "the late phase finds the teacher's coordinates",
    )

    def experiments(self, scale: str) -> dict[str, Experiment]:
        if scale == "paper":
            return {"run": self._experiment(n=256, d=100_000, norm=128.0, decay=1e-3)}
        return {"run": self._experiment(n=100, d=3000, norm=64.0, decay=1e-2)}

    def _experiment(self, n: int, d: int, norm: float, decay: float) -> Experiment:
        return Experiment(
            task=tasks.SparseClassification(n=n, d=d, sparsity=3),
            model=models.DiagonalNet(),
            penalty=penalties.L2(decay),
            dynamics=dynamics.GradientFlow(until=20 / decay, first=_DIAGONAL_LR),
            init=inits.Constant(norm=norm),
        )

    def picture(self, runs: Mapping[str, Run]) -> Figure:
        return _diagonal_picture(runs["run"])

    def check(self, runs: Mapping[str, Run], scale: str, progress: bool | None) -> Iterator[Finding]:
        run, curves, verdict = runs["run"], runs["run"].curves, runs["run"].verdict
        train, test = curves["train_accuracy"], curves["test_accuracy"]
        slow = 1 / run.spec["penalty"]["strength"]  # 10³ in the paper
        fitted = _first_time(curves, train.values >= _ALL)
        yield Finding(
            self.claims[0],
            "the net fits the training set very quickly",
            f"100 % from t={fitted:.3g}, and {float(train[-1]):.0%} at the end",
            fitted < 1 and bool(train[-1] >= _ALL),
        )
        early = test.sel(time=slice(fitted, slow))
        yield Finding(
            self.claims[1],
            "it fails to generalise in the early phase" + ("" if scale == "paper" else ", until t ≈ 1/λ"),
            f"between {float(early.min()):.1%} and {float(early.max()):.1%} until t={slow:g}",
            bool(early.max() <= 0.6),
        )
        yield Finding(
            self.claims[2],
            "after a sharp transition in the late phase, the test accuracy becomes 100 %",
            f"{float(test[-1]):.2%} at the end; {verdict}",
            bool(test[-1] >= 0.995) and verdict.kind == "grokking",
        )
        yield _transition_finding(self.claims[3], run)
        yield _norm_finding(self.claims[4], run)
        weights = np.abs(run.params["plus"] ** 2 - run.params["minus"] ** 2)
        support = np.flatnonzero(Experiment.from_dict(run.spec).draw().truth)
        largest = np.argsort(weights)[-len(support) :]
        yield Finding(
            self.claims[5],
            "maximising the L1 margin encourages sparsity: n of order k² log d examples are enough",
            f"{len(np.intersect1d(support, largest))} of the {len(support)} largest |w_k| are on the teacher's "
            f"coordinates, which have {weights[support].sum() / weights.sum():.1%} of ‖w‖₁",
            set(support) == set(largest),
        )


class Fig1b(Entry):
    id = "lyu2023/fig1b"
    title = "A diagonal net misgroks data of large L2 margin"
    where = "Fig. 1b, §3.2.3"
    about = (
        "The net of Fig. 1a on Gaussian inputs that are pushed apart along a dense vector w* by a margin of 25, 32 "
        "examples in 10⁵ dimensions. The classifier of largest L2 margin generalises, and the one of largest L1 "
        "margin, which weight decay leads to, uses a few coordinates that know next to nothing of w*. The paper does "
        "not give the norm and the decay of this figure: they are those of Fig. 1a here, 128 and 10⁻³. Gradient flow "
        "as in Fig. 1a, until t = 10⁵, since accuracy still falls at t = 10⁴, where the authors' 10⁶ steps of 0.01 "
        "end. Test accuracy is that of the population, by quadrature."
    )
    claims = (
        "training and test accuracy reach 100 % early",
        "test accuracy drops to nearly 50 % late: misgrokking",
        "training accuracy stays at 100 %",
        "the transition is at a time of order (1/λ)·log α",
        "in the early phase the norm decays as α·exp(−λt)",
    )

    def experiments(self, scale: str) -> dict[str, Experiment]:
        if scale == "paper":
            return {"run": self._experiment(d=100_000, margin=25.0, norm=128.0, decay=1e-3)}
        return {"run": self._experiment(d=20_000, margin=15.0, norm=64.0, decay=1e-2)}

    def _experiment(self, d: int, margin: float, norm: float, decay: float) -> Experiment:
        return Experiment(
            task=tasks.MarginClassification(n=32, d=d, margin=margin, n_test=100),
            model=models.DiagonalNet(),
            penalty=penalties.L2(decay),
            dynamics=dynamics.GradientFlow(until=100 / decay, first=_DIAGONAL_LR),
            init=inits.Constant(norm=norm),
        )

    def picture(self, runs: Mapping[str, Run]) -> Figure:
        return _diagonal_picture(runs["run"])

    def check(self, runs: Mapping[str, Run], scale: str, progress: bool | None) -> Iterator[Finding]:
        run, curves, verdict = runs["run"], runs["run"].curves, runs["run"].verdict
        train, test = curves["train_accuracy"], curves["test_accuracy"]
        slow = 1 / run.spec["penalty"]["strength"]
        both = _first_time(curves, (train.values >= _ALL) & (test.values >= 0.99))
        yield Finding(
            self.claims[0],
            "the net first fits the training set and achieves 100 % test accuracy",
            f"100 % and at least 99 % from t={both:.3g}; test accuracy {float(test.max()):.2%} at its best",
            both < 1,
        )
        ten = float(test.sel(time=10 * slow, method="nearest"))
        yield Finding(
            self.claims[1],
            "after training for sufficiently longer, the test accuracy drops to nearly 50 %",
            f"{ten:.1%} at t={10 * slow:g}, {float(test[-1]):.1%} at the end; {verdict}",
            verdict.kind == "misgrokking" and bool(test[-1] <= 0.6),
        )
        yield Finding(
            self.claims[2],
            "the late-phase bias destroys generalisation, not the fit",
            f"at least {float(train.sel(time=slice(both, None)).min()):.2%} after t={both:.3g}",
            bool((train.sel(time=slice(both, None)) >= _ALL).all()),
        )
        yield _transition_finding(self.claims[3], run)
        yield _norm_finding(self.claims[4], run)


class Fig2a(Entry):
    id = "lyu2023/fig2a"
    title = "A two-layer ReLU net groks modular addition"
    where = "Fig. 2a, §2"
    about = (
        "W₂ ReLU(W₁x + b₁) of width 1024 learns a + b mod 97 from 40 % of all pairs, shown as two one-hot vectors, "
        "with the mean cross-entropy, weight decay λ = 10⁻⁴ on all parameters and He initialisation. The authors make "
        "steps of gradient descent at rate 0.002, some 10⁷ of them, which would take days here; it is gradient flow "
        "instead, which so small a rate follows closely, in single precision. The authors' code draws W₂ with "
        "variance 1/1024, where He initialisation, which the paper names and this entry uses, has 2/1024."
    )
    claims = (
        "training accuracy reaches 100 % within 10⁶ steps",
        "test accuracy is then close to random guessing",
        "test accuracy jumps to 100 % an order of magnitude later, at ~10⁷ steps",
    )

    def experiments(self, scale: str) -> dict[str, Experiment]:
        if scale == "paper":
            return {"run": self._experiment(p=97, fraction=0.4, width=1024, decay=1e-4, until=1e5, rtol=1e-3)}
        # Kinks of the ReLUs set the steps here, not the slow motion: t_fit and t_gen are those of rtol=1e-3 to 10 %.
        return {"run": self._experiment(p=23, fraction=0.9, width=256, decay=1e-3, until=4e3, rtol=3e-2)}

    def _experiment(self, p: int, fraction: float, width: int, decay: float, until: float, rtol: float) -> Experiment:
        return Experiment(
            task=tasks.ModularArithmetic(p=p, fraction=fraction, precision="single"),
            model=models.MLP((width,), biases="hidden"),
            penalty=penalties.L2(decay),
            dynamics=dynamics.GradientFlow(until=until, first=100 * _MODULAR_LR, rtol=rtol),
            init=inits.He(),
        )

    def picture(self, runs: Mapping[str, Run]) -> Figure:
        run = runs["run"]
        return _accuracy_picture(run, _MODULAR_LR, chance=1 / run.spec["task"]["p"])

    def check(self, runs: Mapping[str, Run], scale: str, progress: bool | None) -> Iterator[Finding]:
        run, curves, verdict = runs["run"], runs["run"].curves, runs["run"].verdict
        test, chance = curves["test_accuracy"], 1 / run.spec["task"]["p"]
        slow = 1 / run.spec["penalty"]["strength"]
        million = 1e6 * _MODULAR_LR if scale == "paper" else slow
        fitted = _first_time(curves, curves["train_accuracy"].values >= _ALL)
        yield Finding(
            self.claims[0],
            "100 % in 10⁶ steps" if scale == "paper" else "100 % before weight decay acts, at t ≈ 1/λ",
            f"100 % from t={fitted:.3g} ({fitted / _MODULAR_LR:.2g} steps)",
            fitted <= million,
        )
        guess = float(test.sel(time=fitted, method="nearest")) if np.isfinite(fitted) else np.nan
        yield Finding(
            self.claims[1],
            "the test accuracy remains close to random guessing",
            f"{guess:.1%} at t={fitted:.3g}, beside 1/p = {chance:.1%}",
            guess <= chance + 0.05,
        )
        halfway = _halfway(run)
        expected = 1e7 * _MODULAR_LR if scale == "paper" else 10 * fitted
        yield Finding(
            self.claims[2],
            "after one additional order of magnitude in the number of steps, it suddenly jumps to 100 %; App. B.1: a "
            "sharp transition at ~10⁷ steps",
            f"half-way at t={halfway:.3g} ({halfway / _MODULAR_LR:.2g} steps), {halfway / fitted:.2g} times the time "
            f"of the fit; 10–90 % within {verdict.width_decades or np.nan:.2f} decades; {float(test[-1]):.2%} at the "
            f"end; {verdict}",
            verdict.kind == "grokking" and bool(test[-1] >= 0.99) and 10**-0.5 <= halfway / expected <= 10**0.5,
        )


class Fig3(Entry):
    id = "lyu2023/fig3"
    title = "The multiplication table is completed only after 10⁶ steps"
    where = "Fig. 3, §3.3.3"
    about = (
        "The 97 x 97 table ij/97², of rank 1, is completed from 5 % of its entries by W = UUᵀ − VVᵀ started at "
        "U = V = 10·I, with weight decay λ = 10⁻⁴ and gradient descent of step 0.1 on the mean squared error. The "
        "early phase is a kernel predictor, which fits the observed entries and leaves the others at 0; weight decay "
        "ends it at a time of order (1/λ)·log α, and the minimum-norm solution completes the table."
    )
    claims = (
        "the training loss is small within ~10¹ steps",
        "the test loss drops only around 10⁶ steps",
        "the early phase leaves unobserved entries at 0 (Cor. 3.11)",
        "the transition is at a time of order (1/λ)·log α",
        "the late phase completes the table with rank 1",
    )

    def experiments(self, scale: str) -> dict[str, Experiment]:
        if scale == "paper":
            return {"run": self._experiment(d=97, observed=0.05, decay=1e-4, steps=1_200_000)}
        return {"run": self._experiment(d=20, observed=0.25, decay=1e-3, steps=120_000)}

    def _experiment(self, d: int, observed: float, decay: float, steps: int) -> Experiment:
        return Experiment(
            task=tasks.MatrixCompletion(d, d, 1, observed=observed, truth="multiplication_table", reduction="mean"),
            model=models.SymmetricFactorisation(),
            penalty=penalties.L2(decay),
            dynamics=dynamics.GradientDescent(lr=0.1, steps=steps),
            init=inits.Identity(10.0),
        )

    def picture(self, runs: Mapping[str, Run]) -> Figure:
        run = runs["run"]
        curves = run.curves.isel(time=slice(1, None))
        lr, decay, alpha = (run.spec[noun][name] for noun, name in _KNOBS)
        figure = Figure(figsize=(7.5, 5), layout="constrained")
        ax = figure.subplots()
        ax.plot(curves["time"], curves["train_loss"], **TRAIN, label="training loss")
        ax.plot(curves["time"], curves["test_loss"], **TEST, label="test loss")
        ax.axhline(
            zero_filled_loss(run),
            color="k",
            ls=":",
            lw=1.2,
            label="test loss of the kernel predictor (Cor. 3.11)",
        )
        ax.axvspan(0.5 / decay * np.log(alpha), 2 / decay * np.log(alpha), color="0.9", zorder=0)
        ax.axvline(np.log(alpha) / decay, color="0.5", lw=1, label=r"$(1/\lambda)\log\alpha$, and within ×2")
        ax.set(xscale="log", yscale="log", xlabel="training time t = 0.1 · steps", ylabel="mean squared error")
        _show_steps(ax, lr, "steps")
        mark_phases(ax, run.verdict)
        figure.legend(loc="outside lower center", ncols=2, frameon=False, fontsize="small")
        return figure

    def check(self, runs: Mapping[str, Run], scale: str, progress: bool | None) -> Iterator[Finding]:
        run, curves, verdict = runs["run"], runs["run"].curves, runs["run"].verdict
        lr, decay, alpha = (run.spec[noun][name] for noun, name in _KNOBS)
        relative = curves["train_loss"] / curves["train_loss"][0]
        small = int(curves["step"][np.flatnonzero(relative.values <= 1e-2)[0]]) if (relative <= 1e-2).any() else None
        yield Finding(
            self.claims[0],
            "~10¹ steps to minimise the training loss",
            f"1 % of its initial value after {small} steps; {float(relative[-1]):.1g} of it at the end",
            small is not None and 1 <= small <= 100,
        )
        fell = curves["test_loss"] <= 0.1 * curves["test_loss"][0]
        drop = int(curves["step"][np.flatnonzero(fell.values)[0]]) if fell.any() else None
        expected = 1e6 if scale == "paper" else (np.log(alpha) / decay) / lr
        yield Finding(
            self.claims[1],
            "the sharp transition in test loss occurs only after ~10⁶ steps"
            if scale == "paper"
            else "late, at a time of order (1/λ)·log α",
            f"a tenth of its initial value after {drop} steps; {verdict}",
            drop is not None and expected / 4 <= drop <= 4 * expected and verdict.kind == "grokking",
        )
        t_fit = verdict.t_fit or np.inf
        plateau = float(curves["test_loss"].sel(time=10 * t_fit, method="nearest"))
        predicted = zero_filled_loss(run)
        yield Finding(
            self.claims[2],
            "observed entries (and their mirror images) fitted, the others 0",
            f"test loss {plateau:.5g} at t = 10·t_fit; that of the predictor of Cor. 3.11 is {predicted:.5g}",
            abs(plateau / predicted - 1) <= 1e-2,
        )
        halfway = _crossing(curves, 0.5)
        clock = np.log(alpha) / decay
        yield Finding(
            self.claims[3],
            f"(1/λ)·log α = {clock:.3g}, sharp as α → ∞",
            f"test loss halved at t={halfway:.3g}, {halfway / clock:.2f} of it; 10–90 % within "
            f"{verdict.width_decades or np.nan:.2f} decades",
            0.5 <= halfway / clock <= 2,
        )
        values = curves["singular_values"][-1].values
        yield Finding(
            self.claims[4],
            "the minimum nuclear norm solution recovers X* with very small errors",
            f"‖W − X*‖/‖X*‖ = {float(curves['test_error'][-1]):.2g}; second singular value {values[1] / values[0]:.1g} "
            "of the first",
            float(curves["test_error"][-1]) <= 0.05 and values[1] <= 0.01 * values[0],
        )


_KNOBS = (("dynamics", "lr"), ("penalty", "strength"), ("init", "scale"))


def zero_filled_loss(run: Run) -> float:
    """The test loss of the kernel predictor: entries seen, or whose mirror image is, right; the others 0."""
    data = Experiment.from_dict(run.spec).draw()
    seen = np.maximum(data.inputs.mask, data.inputs.mask.T)
    hidden = data.test_inputs.mask
    return float(np.sum(hidden * (seen * data.truth - data.truth) ** 2) / np.sum(hidden))


def _crossing(curves, share: float) -> float:
    """When the test loss has fallen to a share of its initial value."""
    below = np.flatnonzero(curves["test_loss"].values <= share * float(curves["test_loss"][0]))
    return float(curves["time"][below[0]]) if len(below) else np.inf


_DIAGONAL_LR, _MODULAR_LR = 0.01, 0.002  # the authors' learning rates, which turn training time into their steps
_ALL = 1 - 1e-6  # an accuracy of 100 %, up to rounding in single precision


def _diagonal_picture(run: Run) -> Figure:
    """Accuracies and norm of a diagonal net, beside the two predictions: (1/λ)·log α and α·exp(−λt)."""
    decay, alpha = run.spec["penalty"]["strength"], run.spec["init"]["norm"]
    clock = np.log(alpha) / decay

    def predictions(accuracy: Axes, norm: Axes) -> None:
        time = run.curves["time"].values[1:]
        early = time[time <= clock]
        norm.plot(early, alpha * np.exp(-decay * early), color="k", ls=":", lw=1.4, label=r"$\alpha\,e^{-\lambda t}$")
        norm.set_yscale("log")
        for ax in (accuracy, norm):
            ax.axvspan(clock / 2, 2 * clock, color="0.9", zorder=0)
            label = r"$(1/\lambda)\log\alpha$, and within ×2" if ax is accuracy else None
            ax.axvline(clock, color="0.5", lw=1, zorder=1, label=label)

    return _accuracy_picture(run, _DIAGONAL_LR, chance=0.5, predictions=predictions)


def _accuracy_picture(
    run: Run, lr: float, chance: float, predictions: Callable[[Axes, Axes], None] = lambda accuracy, norm: None
) -> Figure:
    """Training and test accuracy, and the norm of the parameters, over time and the authors' steps."""
    curves = run.curves.isel(time=slice(1, None))
    figure = Figure(figsize=(11, 4.6), layout="constrained")
    accuracy, norm = figure.subplots(1, 2)
    accuracy.plot(curves["time"], 100 * curves["train_accuracy"], **TRAIN, label="training accuracy")
    accuracy.plot(curves["time"], 100 * curves["test_accuracy"], **TEST, label="test accuracy")
    accuracy.axhline(100 * chance, color="k", ls=":", lw=1, label="random guessing")
    accuracy.set(ylabel="accuracy (%)", ylim=(100 * chance - 6, 104))
    norm.plot(curves["time"], curves["norm_l2"], color="0.6", lw=3, label=r"$\|\theta\|_2$")
    norm.set(ylabel="norm of the parameters")
    log_time_axes(accuracy, norm)
    predictions(accuracy, norm)
    for ax in (accuracy, norm):
        _show_steps(ax, lr, f"steps of gradient descent at rate {lr:g}")
        mark_phases(ax, run.verdict, label=ax is accuracy)
    figure.legend(loc="outside lower center", ncols=3, frameon=False, fontsize="small")
    return figure


def _show_steps(ax: Axes, lr: float, label: str) -> None:
    """A second axis below the one of time: how many steps of gradient descent that is."""
    ax.secondary_xaxis(-0.2, functions=(lambda t: np.divide(t, lr), lambda k: np.multiply(k, lr))).set_xlabel(label)


def _transition_finding(claim: str, run: Run) -> Finding:
    """When the test accuracy of a diagonal net is half-way, against (1/λ)·log α."""
    decay, alpha = run.spec["penalty"]["strength"], run.spec["init"]["norm"]
    halfway, clock = _halfway(run), float(np.log(alpha) / decay)
    return Finding(
        claim,
        f"(1/λ)·log α = {clock:.3g}, sharp as α → ∞",
        f"half-way at t={halfway:.3g}, {halfway / clock:.2f} of it; 10–90 % within "
        f"{run.verdict.width_decades or np.nan:.2f} decades",
        0.5 <= halfway / clock <= 2,
    )


def _norm_finding(claim: str, run: Run) -> Finding:
    """‖θ‖ of a diagonal net against α·exp(−λt), until t = 1/λ, when it has fallen to α/e."""
    decay, alpha = run.spec["penalty"]["strength"], run.spec["init"]["norm"]
    early = run.curves["norm_l2"].sel(time=slice(None, 1 / decay))
    ratio = early / (alpha * np.exp(-decay * early["time"]))
    return Finding(
        claim,
        "the norm decays, the direction stays: θ(t) ≈ α·exp(−λt)·θ_init (§3.2.1)",
        f"‖θ‖/(α·exp(−λt)) between {float(ratio.min()):.4g} and {float(ratio.max()):.4g} until t = 1/λ = {1 / decay:g}",
        bool((abs(ratio - 1) <= 0.05).all()),
    )


def _halfway(run: Run) -> float:
    """When the test accuracy has come half-way from its value at the fit to its last."""
    since = run.curves["test_accuracy"].sel(time=slice(run.verdict.t_fit or np.inf, None))
    if not since.size:
        return np.inf
    before, after = float(since[0]), float(since[-1])
    return float(since["time"][np.abs(since.values - after) <= abs(before - after) / 2][0])


def _first_time(curves, met: np.ndarray) -> float:
    """The first observation at which a condition is met."""
    times = curves["time"].values[met]
    return float(times[0]) if len(times) else np.inf
