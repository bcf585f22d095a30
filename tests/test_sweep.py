"""Sweeps: what is asked for is computed once, kept, and told; killed and started again, it is bit for bit the same."""

import dataclasses
import hashlib
import json
import os
import random
import signal
import subprocess
import sys
import time
import warnings
from pathlib import Path

import numpy as np
import pytest
from test_report import _Page

import afterfit as af
from afterfit import Experiment, SpecError, Store, Sweep, SweepFailed
from afterfit._sweeps.knobs import parse_knob
from afterfit._sweeps.results import dimensions
from afterfit._training.train import run_experiment
from afterfit.dynamics import GradientDescent
from afterfit.inits import ScaledGaussian
from afterfit.models import Linear
from afterfit.penalties import L1
from afterfit.tasks import SparseRecovery

SPEC = Experiment(
    SparseRecovery(n=12, sparsity=1, N=9, scale=3.0),
    Linear(),
    GradientDescent(0.1, 30_000),
    L1(1e-4),
    ScaledGaussian(1e-6),
    observations=60,
)
OVER = {"penalty.strength": af.geomspace(1e-4, 1e-2, 3), "dynamics.lr": (0.05, 0.1)}


@pytest.fixture(scope="module")
def sweep(tmp_path_factory):
    return af.sweep(SPEC, OVER, seeds=2, store=str(tmp_path_factory.mktemp("sweep") / "store")).run(progress=False)


def test_every_run_is_in_the_store_and_is_the_run_of_its_experiment(sweep):
    assert sweep.missing == []
    assert len(sweep.store.ids()) == 3 * 2 * 2
    point, seed = (1, 0), 1
    asked = SPEC.set({"penalty.strength": 1e-3, "dynamics.lr": 0.05, "seed": seed})
    assert sweep.experiment(point, seed) == asked
    stored, alone = sweep.store.load(asked.id), run_experiment(asked)
    assert stored.spec == alone.spec
    np.testing.assert_allclose(stored.curves.test_error, alone.curves.test_error, rtol=1e-9)


def test_the_dataset_says_what_the_runs_say(sweep):
    data, curves = sweep.dataset, sweep.curves
    assert data["t_gen"].dims == ("penalty_strength", "dynamics_lr", "seed")
    assert data["penalty_strength"].attrs["setting"] == "penalty.strength"
    assert curves["test_error"].dims == ("penalty_strength", "dynamics_lr", "seed", "time")
    assert set(curves) == {
        name for name, curve in sweep.store.load(sweep.run_id((0, 0), 0)).curves.items() if curve.ndim == 1
    }
    for strength in OVER["penalty.strength"]:
        for lr in OVER["dynamics.lr"]:
            here = {"penalty_strength": strength, "dynamics_lr": lr, "seed": 1}
            cell, curve = data.sel(**here), curves["test_error"].sel(**here)
            run = sweep.store.load(str(cell["id"].item()))
            assert (run.spec["penalty"]["strength"], run.spec["dynamics"]["lr"], run.spec["seed"]) == (strength, lr, 1)
            assert cell["verdict"] == run.verdict.kind
            for name in ("t_fit", "t_gen", "t_half", "delay", "delay_ratio", "width_decades", "progress"):
                value = getattr(run.verdict, name)
                np.testing.assert_equal(cell[name].item(), np.nan if value is None else value, name)
            assert (cell["end"], cell["seconds"]) == (run.curves["time"][-1], run.seconds)
            for name in curves:
                assert cell[f"final_{name}"] == run.curves[name][-1]
            # Step sizes differ, and with them the times: the curves are brought to common ones, along log time.
            own = run.curves.isel(time=slice(1, None))
            inside = (curves["time"] >= own["time"][0]) & (curves["time"] <= own["time"][-1])
            common = np.interp(np.log(curves["time"][inside]), np.log(own["time"]), own["test_error"])
            np.testing.assert_allclose(curve[inside], common, rtol=1e-12)
            beyond = curves["time"] > own["time"][-1] * (1 + 1e-9)
            assert np.isnan(curve[beyond]).all()


@pytest.fixture
def loads(monkeypatch):
    """The names of the runs that are loaded, as they are."""
    seen, load = [], Store.load

    def count(store, id):
        seen.append(id)
        return load(store, id)

    monkeypatch.setattr(Store, "load", count)
    return seen


def test_what_is_in_the_store_is_read_once(tmp_path, loads):
    knobs = {"penalty.strength": (1e-4, 1e-3), "dynamics.lr": (0.05, 0.1)}
    asked = af.sweep(SPEC, knobs, seeds=2, store=tmp_path / "store").run(progress=False)
    assert asked.dataset["id"].size == 8
    asked.scaling_law("final_train_error", x="penalty.strength")
    assert loads == [], "the table is the store's"
    af.report(asked, tmp_path / "own.html")
    assert sorted(loads) == sorted(asked.store.ids()), "each once"
    af.report(asked.judged(fit=0.5), tmp_path / "other.html")
    assert len(loads) == 8, "nor again for other thresholds"
    # What was written again since is read again, and nothing else.
    id = asked.run_id((1, 0), 1)
    run = asked.store.load(id)
    longer = dataclasses.replace(run, seconds=1e3, versions={**run.versions, "jax": "0.0.7"})
    asked.store.remove(id)
    assert asked.dataset["id"].values[1, 0].tolist() == [asked.run_id((1, 0), 0), ""]
    assert np.isnan(asked.curves["test_error"][1, 0, 1]).all()
    asked.store.publish(id, longer.files())
    loads.clear()
    assert asked.dataset["seconds"].values[1, 0, 1] == 1e3
    assert np.isfinite(asked.curves["test_error"][1, 0, 1]).any()
    assert loads == [id]
    page = asked.report(tmp_path / "versions.html").read_text()
    jax, page = run.versions["jax"], page[page.index("Versions") :]
    assert f">0.0.7, {jax}<" in page, "what the runs say, not what this page was written with"
    assert f">{jax}<" in page
    assert "where it differs" in page
    for mine in (asked.dataset, asked.curves):  # copies, to be written to
        mine["mine"] = 1.0
        mine["test_error" if "test_error" in mine else "seconds"][:] = -1.0
    assert "mine" not in {*asked.dataset, *asked.curves}
    assert (asked.dataset["seconds"] > 0).all()
    assert not (asked.curves["test_error"] < 0).any()


def test_a_sweep_in_a_notebook(tmp_path):
    knobs = {"penalty.strength": (1e-4, 1e-2), "task.N": (8, 9)}
    asked = af.sweep(SPEC.set({"dynamics.steps": 500}), knobs, seeds=2, store=tmp_path / "<store>")
    assert "\n" not in repr(asked)
    assert len(repr(asked)) < 300
    assert (asked.id in repr(asked), "2 penalty.strength x 2 task.N x 2 seeds" in repr(asked)) == (True, True)
    before = _Page(asked._repr_html_())
    assert ("0 in" in before.text, "8 missing" in before.text, before.tags.count("img")) == (True, True, 0)
    asked.run(progress=False).store.remove(asked.run_id((0, 1), 1))
    page = _Page(asked._repr_html_())
    assert "store" not in page.tags, "a name is text"
    assert ("7 in" in page.text, "1 missing" in page.text, page.tags.count("img")) == (True, True, 1)
    kinds, counts = np.unique([asked.store.load(id).verdict.kind for id in asked.store.ids()], return_counts=True)
    for kind, count in zip(kinds, counts, strict=True):
        assert f"{count} {kind}" in page.text


def test_looking_changes_nothing(tmp_path):
    over = af.refine("penalty.strength", budget=20, ranges={"penalty.strength": (1e-6, 1e-2)}, resolution=9)
    refined = af.sweep(SPEC.set({"dynamics.steps": 2000, "observations": 20}), over, store=tmp_path)
    first = refined.points
    assert (len(first), refined.labels) == (5, {})
    assert (refined.points, refined.labels) == (first, {})
    refined.run(progress=False)
    labels, points = refined.labels, refined.points
    assert set(labels) == set(points) > set(first)
    assert (refined.labels, refined.points) == (labels, points)
    with pytest.raises(SpecError, match=r"most of its grid was not run.*sweep\.store\.load"):
        refined.curves  # noqa: B018


def test_runs_of_an_older_format_have_all_columns(sweep, tmp_path):
    """As an afterfit wrote them that did not say when a run ended, nor when it was half-way."""
    old = Store(tmp_path)
    ids = sweep.store.ids()
    for id in ids:
        files = {path.name: path.read_bytes() for path in (Path(sweep.store.url) / id).iterdir()}
        facts = {**json.loads(files["run.json"]), "format": 2}
        del facts["end"], facts["verdict"]["t_half"]
        files["run.json"] = json.dumps(facts).encode()
        del files["SHA256SUMS"]
        old.publish(id, files)
    assert Sweep.from_dict(sweep.to_dict(), old).dataset.equals(sweep.dataset)


def test_knobs_whose_dimensions_would_be_one_keep_their_names():
    assert dimensions(["a.b_c", "a_b.c", "penalty.strength"]) == {
        "a.b_c": "a.b_c",
        "a_b.c": "a_b.c",
        "penalty.strength": "penalty_strength",
    }


def test_the_experiments_of_a_sweep_are_those_set_one_by_one():
    knobs = {"task.n": (12, 14), "penalty.strength": (1e-4, 1e-2), "task.N": (8, 9), "observations": (20, 30)}
    asked = af.sweep(SPEC, knobs, seeds=(3, 7))
    for point in asked.points:
        values = {name: knobs[name][k] for name, k in zip(knobs, point, strict=True)}
        alone = SPEC.set({**values, "seed": 7})
        text = json.dumps(alone.to_dict(), sort_keys=True, separators=(",", ":"), ensure_ascii=False)
        assert asked.experiment(point, 7) == alone
        assert asked.run_id(point, 7) == hashlib.sha256(text.encode()).hexdigest()[:16]


def test_the_same_sweep_computes_nothing_again(sweep, monkeypatch):
    def forbidden(*_, **__):
        raise AssertionError("computed again")

    monkeypatch.setattr("afterfit._sweeps.jobs.run_together", forbidden)
    again = af.sweep(SPEC, OVER, seeds=2, store=sweep.store.url)
    assert again.id == sweep.id
    again.run(progress=False)


def test_a_larger_sweep_computes_only_what_is_missing(sweep, tmp_path):
    before = {id: (Path(sweep.store.url) / id).stat().st_mtime_ns for id in sweep.store.ids()}
    larger = af.sweep(SPEC, {**OVER, "dynamics.lr": (0.05, 0.1, 0.2)}, seeds=3, store=sweep.store.url)
    assert len(larger.missing) == 3 * 3 * 3 - len(before)
    larger.run(progress=False)
    assert larger.missing == []
    assert before == {id: (Path(sweep.store.url) / id).stat().st_mtime_ns for id in before}
    assert set(sweep.store.sweeps()) == {sweep.id, larger.id}
    read = Sweep.from_dict(sweep.store.sweep(larger.id[:6]), sweep.store)
    assert read.id == larger.id
    assert read.knobs == larger.knobs


def flip_a_bit(file: Path) -> None:
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 1
    file.write_bytes(content)


def test_a_damaged_run_is_set_aside_and_computed_again(sweep):
    id = sweep.experiment((0, 0), 0).id
    good, curves = sweep.store.load(id), Path(sweep.store.url) / id / "curves.parquet"
    flip_a_bit(curves)
    with pytest.warns(UserWarning, match=rf"{id} is damaged: curves\.parquet"):
        sweep.run(progress=False)
    assert sweep.store.load(id).curves.identical(good.curves)
    flip_a_bit(curves)
    with pytest.warns(UserWarning, match=rf"{id} is damaged: curves\.parquet"):
        curves = Sweep.from_dict(sweep.to_dict(), sweep.store).curves
    assert np.isnan(curves["test_error"]).all("time").sum() == 1, "the others say what they say"
    assert (sweep.dataset["id"].values == "").sum() == 1
    assert [experiment.id for experiment in sweep.missing] == [id]
    sweep.run(progress=False)
    assert sweep.store.load(id).curves.identical(good.curves)


def rewrite(run: Path, **facts) -> None:
    """Have a run say something else, with a checksum that fits."""
    content = json.dumps({**json.loads((run / "run.json").read_text()), **facts}).encode()
    sums = (run / "SHA256SUMS").read_text().splitlines()
    sums = [f"{hashlib.sha256(content).hexdigest()}  run.json" if line.endswith("run.json") else line for line in sums]
    for name, new in (("run.json", content), ("SHA256SUMS", ("\n".join(sums) + "\n").encode())):
        (run / f".{name}").write_bytes(new)
        (run / f".{name}").replace(run / name)


def test_runs_that_cannot_be_read_do_not_stop_a_refined_diagram(tmp_path):
    spec = SPEC.set({"dynamics.steps": 2000, "observations": 20})
    over = af.refine("penalty.strength", budget=10, ranges={"penalty.strength": (1e-6, 1e-2)}, resolution=5)
    refined = af.sweep(spec, over, seeds=2, store=tmp_path).run(progress=False)
    labels, (point, *_) = refined.labels, refined.points
    newer, malformed = (tmp_path / refined.experiment(point, seed).id for seed in (0, 1))
    rewrite(newer, format=99)
    rewrite(malformed, seconds="long")
    again = af.sweep(spec, over, seeds=2, store=tmp_path)
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        again.run(progress=False)
        assert (again.labels, again.missing) == (labels, [])
        assert (again.dataset["id"].values == newer.name).sum() == 0
    assert len({str(warning.message) for warning in said}) == 2
    assert newer.is_dir(), "it is another's"


def test_scaling_law_of_the_fit(sweep):
    # t_gen of subgradient descent under L1 is ‖â − a*‖_∞/β: exponent −1 (Notsawo et al. 2025, Fig. 4).
    spec = SPEC.set({"dynamics.steps": 600_000, "dynamics.lr": 0.3})
    slow = af.sweep(spec, {"penalty.strength": (5e-6, 1e-5, 2e-5)}, seeds=(1, 2, 4), store=sweep.store.url)
    law = slow.run(progress=False).scaling_law("t_gen", x="penalty.strength")
    assert law.exponent == pytest.approx(-1, abs=0.1)
    assert law.interval[0] < law.exponent < law.interval[1]
    assert law.law.n == 9
    assert str(law).rstrip(".") in repr(law)
    assert all("\n" not in line and len(line) < 200 for line in (repr(law), repr(law.law)))
    assert law.plot().axes
    # A law over all step sizes together has a row for each.
    assert sweep.scaling_law("final_train_error", x="penalty.strength").values.shape == (6, 2)
    assert sweep.scaling_law("final_train_error", x="penalty.strength", at={"dynamics.lr": 0.1}).values.shape == (3, 2)


def test_runs_that_diverged_are_left_out_of_a_law(sweep):
    # A step of 2 is beyond 2/σ² of these designs. Its runs end at once, which is no time that anything took.
    knobs = {"penalty.strength": OVER["penalty.strength"], "dynamics.lr": (0.05, 0.1, 2.0)}
    wider = af.sweep(SPEC, knobs, seeds=2, store=sweep.store.url).run(progress=False)
    assert (wider.dataset["verdict"].sel(dynamics_lr=2.0) == "diverged").all()
    for quantity in ("t_fit", "final_train_error"):
        law, tame = (s.judged(fit=0.5).scaling_law(quantity, x="penalty.strength") for s in (wider, sweep))
        assert law.exponent == pytest.approx(tame.exponent, rel=1e-9)
        assert law.interval == pytest.approx(tame.interval, rel=1e-9)
        assert (law.law.n, law.law.n_left_out) == (12, 6)
        assert "6 more broke down" in str(law)
        assert "6 runs broke down" in law.plot().axes[0].get_title(loc="left")
    # Nor do they set the scale of a map, and what is not run yet is not what never came.
    ax, bar = wider.phase_diagram("final_test_error").axes
    assert bar.get_ylim()[1] < 10
    assert [text.get_text() for text in ax.get_legend().get_texts()] == ["diverged, for most seeds"]
    more = af.sweep(SPEC, {**knobs, "dynamics.lr": (0.05, 0.1, 0.15)}, seeds=2, store=sweep.store.url)
    assert "no run" in [text.get_text() for text in more.phase_diagram("t_fit").axes[0].get_legend().get_texts()]


def test_what_most_runs_never_do_has_no_law(sweep):
    # Weak penalties let the fit come when it does without; strong ones do not delay it, they prevent it.
    strengths = {"penalty.strength": (1e-5, 1e-4, 1.0, 2.0, 5.0)}
    asked = af.sweep(SPEC, strengths, store=sweep.store.url).run(progress=False)
    judged = asked.judged(fit=0.3)
    assert np.isfinite(judged.dataset["t_fit"].values[:, 0]).tolist() == [True] * 2 + [False] * 3
    with pytest.raises(SpecError, match=r"a question of whether, not of when.*penalty\.strength"):
        judged.scaling_law("t_fit", x="penalty.strength")


def test_a_sweep_may_be_judged_by_other_thresholds(sweep):
    loose = sweep.judged(fit=0.5, generalise=0.9)
    assert loose.id == sweep.id
    run = sweep.store.load(sweep.run_id((2, 1), 0))
    seen = loose.dataset.isel(penalty_strength=2, dynamics_lr=1, seed=0)
    verdict = run.diagnose(fit=0.5, generalise=0.9)
    assert (seen["verdict"].item(), seen["t_fit"].item()) == (verdict.kind, verdict.t_fit)
    assert verdict.t_fit != run.verdict.t_fit
    assert run.judged(fit=0.5, generalise=0.9).verdict == verdict
    assert sweep.judged(fit=0.5).judged(generalise=0.9).dataset.identical(loose.dataset)
    refined = af.sweep(SPEC, af.refine("penalty.strength", ranges={"penalty.strength": (1e-4, 1e-2)}, resolution=5))
    with pytest.raises(SpecError, match="refined by the task's own thresholds"):
        refined.judged(fit=0.5)
    assert refined.judged() is refined


def test_a_refined_diagram_finds_the_boundary_of_the_grid(tmp_path):
    # With so few steps a run generalises only under a strong pull; and too strong a pull leaves too large an error.
    spec = SPEC.set({"dynamics.steps": 20_000, "observations": 40})
    ranges = {"penalty.strength": (1e-6, 1e-2)}
    over = af.refine("penalty.strength", budget=30, ranges=ranges, resolution=33)
    refined = af.sweep(spec, over, store=str(tmp_path / "refined")).run(progress=False)
    dense = af.sweep(spec, {"penalty.strength": refined.knobs["penalty.strength"]}, store=str(tmp_path / "dense"))
    verdicts = dense.run(progress=False).dataset["verdict"].isel(seed=0).values
    filled, ran = refined.refine.fill(refined.labels)
    assert len(set(verdicts)) > 1
    assert list(filled) == list(verdicts)
    assert ran.sum() == len(refined.store.ids()) <= 33 / 2
    assert refined.phase_diagram("verdict").axes
    assert Sweep.from_dict(refined.store.sweep(refined.id), refined.store).missing == []


class Failing(SparseRecovery):
    """A task that cannot be drawn when it is too large."""

    def draw(self, rng):
        if self.n == 13:
            raise RuntimeError("thirteen is unlucky")
        return super().draw(rng)


def test_runs_that_fail_do_not_stop_the_others(tmp_path):
    spec = Experiment(Failing(n=12, sparsity=1, N=9), Linear(), GradientDescent(0.1, 50), L1(1e-3), ScaledGaussian(0.1))
    failing = af.sweep(spec, {"task.n": (12, 13, 14)}, seeds=2, store=str(tmp_path / "store"))
    with pytest.raises(SweepFailed, match=r"2 runs failed(.|\n)*thirteen is unlucky(.|\n)*task\.n=13"):
        failing.run(progress=False)
    assert len(failing.store.ids()) == 4
    assert {experiment.task.n for experiment in failing.missing} == {13}


def test_what_cannot_be_swept_is_refused_before_any_work(tmp_path):
    store = str(tmp_path / "store")
    for over, words in (
        ({}, "one setting at least"),
        ({"penalty.strenth": (1.0,)}, "penalty.strength"),
        ({"penalty.strength": "1e-3"}, "several values"),
        ({"penalty.strength": (1e-3, 1e-3)}, "twice"),
        ({"penalty.strength": ("much",)}, "must be a number"),
        ({"seed": (1, 2)}, "seeds="),
        (af.refine("penalty.strenth"), "penalty.strength"),
    ):
        with pytest.raises(SpecError, match=words):
            af.sweep(SPEC, over, store=store)
    with pytest.raises(SpecError, match="seeds must be 1 or more"):
        af.sweep(SPEC, OVER, seeds=0, store=store)
    with pytest.raises(SpecError, match=r"call sweep\.run"):
        af.sweep(SPEC, OVER, store=store).dataset  # noqa: B018
    assert not Path(store).exists()


def test_values_on_the_command_line():
    np.testing.assert_allclose(af.geomspace(2, 5e3, num=7), np.geomspace(2, 5e3, num=7), rtol=1e-14)
    assert parse_knob("penalty.strength=log:1e-4:1e-2:3") == ("penalty.strength", (1e-4, 1e-3, 1e-2))
    assert parse_knob("task.n=10,20") == ("task.n", (10, 20))
    assert parse_knob("dynamics.lr=lin:0.1:0.3:3")[1] == pytest.approx((0.1, 0.2, 0.3))
    assert parse_knob("penalty.kind=L1,L2") == ("penalty.kind", ("L1", "L2"))
    for wrong in ("penalty.strength", "x=log:1:2", "x=log:1:b:3", "x=log:-1:1:3"):
        with pytest.raises(SpecError):
            parse_knob(wrong)


def test_stores_elsewhere(sweep):
    elsewhere = af.sweep(SPEC, OVER, seeds=1, store="memory://test-sweep").run(progress=False)
    assert elsewhere.missing == []
    for experiment in (elsewhere.experiment((0, 0), 0), elsewhere.experiment((2, 1), 0)):
        there, here = elsewhere.store.load(experiment.id), Store(sweep.store.url).load(experiment.id)
        np.testing.assert_allclose(there.curves.test_error, here.curves.test_error, rtol=1e-9)


# Interrupted, killed, and several at once.

PROGRAM = """
import signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)  # a background shell ignores Ctrl-C
import tests.test_sweep
getattr(tests.test_sweep, sys.argv[1])(sys.argv[2]).run(progress=False)
"""


def short(store):
    return af.sweep(SPEC.set({"dynamics.steps": 200_000}), OVER, seeds=3, store=store)


def endless(store):
    """But for those that diverge at once."""
    over = {"init.scale": (1e-6, 1e200)}
    return af.sweep(SPEC.set({"dynamics.steps": 10**10}), over, seeds=3, store=store)


def start(sweep, store, stderr=subprocess.DEVNULL):
    root = Path(__file__).parent.parent
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(root), *sys.path])}
    command = [sys.executable, "-c", PROGRAM, sweep.__name__, str(store)]
    return subprocess.Popen(command, env=environment, stderr=stderr)


def what_matters(store):
    """The bytes of every run, but for what says how long it took."""
    return {
        f"{id}/{name}": (Path(store) / id / name).read_bytes()
        for id in Store(store).ids()
        for name in ("spec.json", "curves.parquet", "params.npz")
    }


def test_killed_and_started_again_it_is_the_same_bit_for_bit(tmp_path):
    undisturbed, killed = tmp_path / "undisturbed", tmp_path / "killed"
    began = time.monotonic()
    assert start(short, undisturbed).wait() == 0
    takes = time.monotonic() - began
    moments = random.Random(0)
    for _ in range(2):
        process = start(short, killed)
        time.sleep(moments.uniform(0.3, 0.95) * takes)
        process.send_signal(signal.SIGKILL)
        process.wait()
        for id in Store(killed).ids():  # whatever is visible is whole
            Store(killed).load(id)
    # Two processes at once finish it together.
    processes = [start(short, killed), start(short, killed)]
    assert [process.wait() for process in processes] == [0, 0]
    assert what_matters(killed) == what_matters(undisturbed)
    assert len(Store(killed).ids()) == 18
    seconds = [json.loads((killed / id / "run.json").read_text())["seconds"] for id in Store(killed).ids()]
    assert all(s > 0 for s in seconds)


def test_control_c_keeps_what_has_ended(tmp_path):
    store = Store(tmp_path / "store")
    with start(endless, store.url, stderr=subprocess.PIPE) as process:
        while len(store.ids()) < 3:
            assert process.poll() is None
            time.sleep(0.05)
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=30)
    assert process.returncode != 0
    assert b"KeyboardInterrupt" in said
    assert [store.load(id).status for id in store.ids()] == ["diverged"] * 3
    # Nobody holds the others.
    missing = endless(store.url).missing
    assert len(missing) == 3
    ids = [experiment.id for experiment in missing]
    assert store.lease(ids) == set(ids)
    store.release(ids)


def test_seeds_and_places_of_any_kind(tmp_path):
    over = {"penalty.strength": np.array([1e-3, 1e-2])}
    asked = af.sweep(SPEC, over, seeds=np.int64(2), store=tmp_path / "store")
    assert (asked.seeds, asked.knobs) == ((0, 1), {"penalty.strength": (1e-3, 1e-2)})
    assert asked.store.url == af.sweep(SPEC, over, store=str(tmp_path / "store")).store.url
    assert af.sweep(SPEC, over, seeds=np.array([3, 7]), store=tmp_path).seeds == (3, 7)
    json.dumps(asked.to_dict())  # plain numbers all
    for seeds, words in ((0, "1 or more, got 0"), ([], "one seed at least"), (1.5, "got 1.5"), ([1, 1.0], "twice")):
        with pytest.raises(SpecError, match=words):
            af.sweep(SPEC, over, seeds=seeds, store=tmp_path)
    with pytest.raises(SpecError, match="value twice"):
        af.sweep(SPEC, {"penalty.strength": [1, 1.0]}, store=tmp_path)
    with pytest.raises(SpecError, match="a sweep has spec, seeds"):
        Sweep.from_dict({"spec": 3}, tmp_path)


def test_a_sweep_of_many_points_is_laid_out_in_little_time(tmp_path):
    # 10,000 points took 88 s, and 100,000 then 76 on the same busy machine: the words of refusals had been written
    # for every setting of every point.
    began = time.process_time()
    assert len(af.sweep(SPEC, {"penalty.strength": af.geomspace(1e-6, 1e-2, 5000)}, store=tmp_path).missing) == 5000
    assert time.process_time() - began < 15
