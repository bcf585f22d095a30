"""Fig. 1b: a diagonal net misgroks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from matplotlib.figure import Figure

from afterfit import dynamics, inits, models, penalties, tasks
from afterfit.experiment import Experiment
from afterfit.papers.gallery import Entry, Finding
from afterfit.papers.lyu2023.accuracy import ALL, first_time
from afterfit.papers.lyu2023.diagonal import LR, diagonal_picture, norm_finding, transition_finding
from afterfit.run import Run

__all__ = ["Fig1b"]


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
            dynamics=dynamics.GradientFlow(until=100 / decay, first=LR),
            init=inits.Constant(norm=norm),
            observations=120,
        )

    def picture(self, runs: Mapping[str, Run]) -> Figure:
        return diagonal_picture(runs["run"])

    def check(self, runs: Mapping[str, Run], scale: str, progress: bool | None) -> Iterator[Finding]:
        run, curves, verdict = runs["run"], runs["run"].curves, runs["run"].verdict
        train, test = curves["train_accuracy"], curves["test_accuracy"]
        slow = 1 / run.spec["penalty"]["strength"]
        both = first_time(curves, (train.values >= ALL) & (test.values >= 0.99))
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
            bool((train.sel(time=slice(both, None)) >= ALL).all()),
        )
        yield transition_finding(self.claims[3], run)
        yield norm_finding(self.claims[4], run)
