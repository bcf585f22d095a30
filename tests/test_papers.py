"""The gallery checks itself: at quick scale every claim holds, but for those that say why they do not."""

import itertools
import math
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import afterfit as af
from afterfit import AfterfitError, SpecError, papers
from afterfit._sweeps.store import Store
from afterfit.papers import _ledger
from afterfit.papers._entry import Evidence, keeping

ENTRIES = papers.entries()


@pytest.mark.parametrize("id", sorted(ENTRIES))
def test_claims_at_quick_scale(id, monkeypatch):
    monkeypatch.setattr("afterfit._sweeps.processes.cores", lambda: 1)  # the others are other tests'
    entry = ENTRIES[id]
    try:
        runs = entry.run("quick")
    except AfterfitError as error:
        if "not on this machine" in str(error):  # images, which then say how they are had
            pytest.skip(str(error))
        raise
    assert {run.status for run in runs.values()} == {"finished"}
    evidence = Evidence(entry, runs, "quick", False)
    # Claims hold and their controls do not; a change that makes one hold which is known to fail is noticed as well.
    rows = [entry._judge(claim, evidence, "quick") for claim in entry.claims]
    assert all(row.as_recorded for row in rows), [row for row in rows if not row.as_recorded]
    figure = evidence.ask(entry.picture)
    assert all(ax.get_xlabel() and ax.get_ylabel() for ax in figure.axes)
    marked = [text.get_text() for ax in figure.axes for text in ax.texts]
    assert any("fit" in text for text in marked), "t_fit is not marked"


def test_every_check_asks_for_what_there_is():
    for entry in ENTRIES.values():
        entry.check_names()


def test_every_check_is_seen_to_reject_something():
    """A claim that holds has a control; of one that is known to fail, its check is seen to accept something."""
    without = {
        f"{entry.id}: {claim.words}"
        for entry in ENTRIES.values()
        for claim in entry.claims
        for scale in papers.SCALES
        if claim.correction is None and not (claim.controls if claim.holds_at(scale) else claim.passing)
    }
    assert without == set()


@pytest.mark.parametrize("id", ["lyu2023/fig2a", "woodworth2020/thm2", "afterfit2026/decay"])
def test_a_row_depends_on_the_modules_that_its_entry_loads(id):
    """And not on other entries, so that a new one leaves what was measured."""
    module = type(ENTRIES[id]).__module__
    program = (
        f"import sys, {module}\n"
        "print(*(m.__file__ for name, m in sys.modules.items() if name.startswith('afterfit.papers')), sep='\\n')"
    )
    loaded = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=100)
    depends = _ledger._closure(module)
    assert depends >= {Path(line) for line in loaded.stdout.split()}
    others = {Path(sys.modules[type(entry).__module__].__file__) for entry in ENTRIES.values()} - depends
    assert len(others) > 20
    assert not others & _ledger._core()


def test_two_claims_in_the_same_words_are_refused():
    """Rows are kept by them: one would pass for the other."""
    same = papers.claim("it holds", says="it does")
    checks = {name: same(lambda self: papers.Finding("yes", True)) for name in ("one", "other")}
    said = {"paper": papers.Paper("doe2027", "Doe 2027"), "name": "fig9", "title": "", "where": "", "about": ""}
    with pytest.raises(SpecError, match="Twice has 2 claims in the same words, 'it holds'"):
        type("Twice", (papers.Entry,), {**said, **checks})
    assert "doe2027/fig9" not in papers.Entry._known


@pytest.mark.parametrize(
    ("runs", "said"),
    [
        (next(iter(ENTRIES["boursier2025/fig2"].experiments("quick").values())), "not Experiment"),
        ({"run": 3}, "'run' has 3"),
        ({"by α": {0.1: None}}, "'by α' has None"),
        ({}, "not {}"),
    ],
    ids=["bare", "a number", "in a group", "nothing"],
)
def test_runs_that_are_no_experiments_by_name_are_refused_in_a_sentence(monkeypatch, runs, said):
    entry = ENTRIES["boursier2025/fig2"]
    monkeypatch.setattr(type(entry), "runs", lambda self, scale: runs)
    with pytest.raises(SpecError, match=r"fig2: runs\('quick'\) has to give experiments by name.*" + said):
        entry.check_names()


def test_both_scales_of_every_entry_are_posed_and_round_trip():
    for entry in ENTRIES.values():
        for scale in papers.SCALES:
            for experiment in entry.experiments(scale).values():
                assert type(experiment).from_dict(experiment.to_dict()).to_dict() == experiment.to_dict()


def test_paper_scale_is_the_ledger_s_setting():
    def spec(id):
        return next(iter(papers.find(id).experiments("paper").values())).to_dict()

    boursier = spec("boursier2025/fig2")
    assert (boursier["task"]["rows"], boursier["task"]["rank"], boursier["task"]["observed"]) == (20, 3, 0.5)
    assert (boursier["model"]["rank"], boursier["penalty"]["strength"]) == (10, 1e-3)
    assert (boursier["dynamics"]["lr"], boursier["dynamics"]["steps"]) == (1e-2, 10**7)
    notsawo = spec("notsawo2025/fig3")
    assert (notsawo["task"]["n"], notsawo["task"]["sparsity"], notsawo["task"]["N"]) == (100, 5, 30)
    assert (notsawo["dynamics"]["lr"], notsawo["penalty"]["strength"], notsawo["init"]["scale"]) == (0.1, 1e-5, 1e-6)
    assert (notsawo["task"]["variance"], notsawo["task"]["snr"], notsawo["dynamics"]["steps"]) == (1 / 30, 1e8, 10**6)
    over_both = [e.to_dict() for e in papers.find("notsawo2025/fig4").experiments("paper").values()]
    assert {(e["task"]["n"], e["task"]["sparsity"], e["task"]["N"], e["init"]["scale"]) for e in over_both} == {
        (100, 5, 30, 1e-6)
    }
    alphas, betas = (0.005, 0.01, 0.0275, 0.055, 0.0825, 0.1), (1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 1e-1)
    grid = {(e["dynamics"]["lr"], e["penalty"]["strength"]) for e in over_both if e["seed"] == 1}
    assert grid == {*itertools.product(alphas, betas), (0.1, 0.0)}
    over_sizes = [e.to_dict() for e in papers.find("notsawo2025/fig27").experiments("paper").values()]
    sizes = {(e["task"]["sparsity"], e["task"]["N"]) for e in over_sizes}
    assert sizes == {(s, N) for s in (1, 5, 10, 15) for N in range(10, 101, 10)}
    assert {(e["dynamics"]["lr"], e["penalty"]["strength"], e["task"]["n"]) for e in over_sizes} == {(0.1, 1e-5, 100)}
    assert {e["dynamics"]["steps"] for e in over_sizes} == {10**6}
    theorem = spec("notsawo2025/thm2.1")
    assert [theorem[noun]["kind"] for noun in ("task", "model", "penalty", "dynamics")] == [
        "SparseRecovery",
        "Linear",
        "L1",
        "GradientDescent",
    ]
    lyu = spec("lyu2023/fig3")
    assert (lyu["task"]["rows"], lyu["task"]["observed"], lyu["init"]["scale"]) == (97, 0.05, 10.0)
    assert (lyu["dynamics"]["lr"], lyu["penalty"]["strength"]) == (0.1, 1e-4)
    assert lyu["dynamics"]["steps"] >= 10**6
    # Theorems fix no sizes, but the models, the losses' factors and the dynamics are the papers'.
    linear = spec("boursier2025/linear")
    assert (linear["task"]["reduction"], linear["model"]["kind"], linear["penalty"]["kind"]) == (
        "half_sum",
        "Linear",
        "L2",
    )
    for id, model in (
        ("boursier2025/prop1", "DiagonalNet"),
        ("boursier2025/prop4", "MatrixFactorisation"),
        ("boursier2025/prop2", "DiagonalNet"),
        ("boursier2025/prop5", "DiagonalNet"),
        ("woodworth2020/thm2", "DiagonalNet"),
        ("woodworth2020/shape", "DiagonalNet"),
        ("woodworth2020/fig2", "DiagonalNet"),
        ("woodworth2020/thm4", "MatrixFactorisation"),
        ("woodworth2020/appC", "DiagonalProduct"),
        ("woodworth2020/thm9", "MatrixFactorisation"),
        ("woodworth2020/fig5", "MatrixFactorisation"),
    ):
        theorem = spec(id)
        assert (theorem["task"]["reduction"], theorem["model"]["kind"]) == ("sum", model)
        assert theorem["dynamics"]["kind"] == "GradientFlow"
    limits = papers.find("boursier2025/prop2").experiments("paper")
    assert {limits[f"{name} 0"].to_dict()["dynamics"]["kind"] for name in ("diagonal_net", "matrix_completion")} == {
        "RiemannianFlow"
    }
    tangents = [
        e.to_dict() for name, e in papers.find("woodworth2020/thm9").experiments("paper").items() if "tan" in name
    ]
    assert {(t["model"]["kind"], t["model"]["model"]["kind"]) for t in tangents} == {("Tangent", "MatrixFactorisation")}
    sparse = spec("lyu2023/fig1a")
    assert (sparse["task"]["n"], sparse["task"]["d"], sparse["task"]["sparsity"]) == (256, 10**5, 3)
    assert (sparse["task"]["design"], sparse["task"]["loss_name"], sparse["model"]["depth"]) == ("sign", "logistic", 2)
    assert (sparse["init"]["norm"], sparse["penalty"]["strength"]) == (128, 1e-3)
    assert sparse["dynamics"]["until"] >= 10**6 * 0.01
    margin = spec("lyu2023/fig1b")
    assert (margin["task"]["n"], margin["task"]["d"], margin["task"]["margin"]) == (32, 10**5, 25)
    assert (margin["init"]["norm"], margin["penalty"]["strength"]) == (128, 1e-3)
    modular = spec("lyu2023/fig2a")
    assert (modular["task"]["p"], modular["task"]["fraction"], modular["model"]["hidden"]) == (97, 0.4, [1024])
    assert (modular["model"]["biases"], modular["init"]["kind"], modular["init"]["scale"]) == ("hidden", "He", 1.0)
    assert modular["penalty"]["strength"] == 1e-4
    assert modular["dynamics"]["until"] >= 10**7 * 0.002
    for id, knob in (("lyu2023/fig2b", "init"), ("lyu2023/fig2c", "penalty")):
        for experiment in papers.find(id).runs("paper")["flows"].values():
            other = experiment.to_dict()
            assert all(other[noun] == modular[noun] for noun in ("task", "model", "init", "penalty") if noun != knob)
    scaled = [e.to_dict()["init"] for e in papers.find("lyu2023/fig2b").experiments("paper").values()]
    assert {init["kind"] for init in scaled} == {"ZeroLastLayer"}
    assert {init["init"]["scale"] for init in scaled} >= {1.0, 100.0}
    completion = spec("woodworth2020/fig5")["task"]
    assert (completion["rows"], completion["columns"], completion["rank"], completion["observed"]) == (10, 10, 1, 60)


def test_changes_reach_the_run_and_wrong_ones_are_refused_before_any_work():
    entry = papers.find("notsawo2025/fig3")
    runs = entry.run("quick", {"dynamics.steps": 10, "penalty.strength": 0.5})
    assert runs["run"].spec["penalty"]["strength"] == 0.5
    assert math.isclose(float(runs["run"].curves["time"][-1]), 1.0)
    with pytest.raises(SpecError, match=r"penalty\.strenght.*did you mean 'penalty\.strength'"):
        entry.run("quick", {"penalty.strenght": 0.5})
    with pytest.raises(SpecError, match=r"'boursier2025/fig9'.*did you mean"):
        papers.find("boursier2025/fig9")
    with pytest.raises(SpecError, match="unknown scale 'papers'"):
        entry.run("papers")


def _squares(params, x):
    return (params["w"] ** 2) @ x


def test_runs_taken_from_a_store_know_what_was_asked_for(tmp_path):
    """Also the arrays that a model holds, which no file of a run has."""
    asked = af.Experiment(
        task=af.tasks.SparseRegression(n=3, d=4, sparsity=1),
        model=af.models.Function(_squares, initial={"w": np.full(4, 0.5)}),
        dynamics=af.dynamics.GradientFlow(until=1.0),
    )
    with keeping(Store(tmp_path)):
        (computed,) = papers.run_all({"computed": asked}, "", False).values()
        (taken,) = papers.run_all({"taken": asked}, "", False).values()
    assert taken.ended == computed.ended
    assert taken.experiment.dynamics.method == computed.spec["dynamics"]["method"]
    assert taken.id == asked.id
    start = af.theory.instance_of(taken).initial  # needs the arrays
    np.testing.assert_array_equal(start["w"], np.full(4, 0.5))
