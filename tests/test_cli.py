"""The command line: what it prints, writes and refuses, and that nothing computed is lost."""

from __future__ import annotations

import dataclasses
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tomllib
from pathlib import Path

import numpy as np
import pytest
from matplotlib.figure import Figure
from test_plot import make_run
from typer.testing import CliRunner

import afterfit as af
from afterfit import _cli as cli
from afterfit import papers
from afterfit._cli._app import complete_job, complete_scale
from afterfit._diagnose.words import number
from afterfit._training.experiment import Experiment
from afterfit.papers import Entry, Finding, claim, control, correction, passing

SETTING = """
task = {kind = "SparseRecovery", n = 20, sparsity = 2, N = 12}
model = {kind = "Linear"}
penalty = {kind = "L1", strength = 1e-3}
dynamics = {kind = "GradientDescent", lr = 0.3, steps = 2000}
init = {kind = "Gaussian", scale = 0.1}
observations = 40
"""


PAPER = papers.Paper("tiny2000", "Tiny 2000, Not much")


class Tiny(Entry):
    paper, name = PAPER, "fig1"
    title = "A tiny recovery"
    where = "Fig. 1"
    about = "Nothing much."

    def runs(self, scale):
        base = Experiment.from_dict(tomllib.loads(SETTING))
        return {"weak": base, "strong": base.set({"penalty.strength": 1e-2})}

    def picture(self, runs):
        figure = Figure()
        figure.subplots().plot([len(runs)])
        return figure

    @claim("one holds", says="1 ≤ 2")
    def one(self):
        return Finding("1", np.bool_(True))  # pyright: ignore[reportArgumentType]

    @control(one, "of three")
    def one_of_three(self):
        return Finding("3", False)

    @claim("two does not", says="2 ≤ 1")
    def two(self):
        return Finding("2", False)


class Broken(Tiny):
    name = "broken"

    def run(self, scale, changes=None, progress=None):
        raise ZeroDivisionError("by zero")


class Interrupted(Tiny):
    """Someone presses Ctrl-C once while it trains, which training by itself would survive."""

    name = "late"

    def run(self, scale, changes=None, progress=None):
        try:
            signal.raise_signal(signal.SIGINT)
        except KeyboardInterrupt:
            return {}
        return {}


@pytest.fixture(autouse=True)
def place(tmp_path, monkeypatch) -> Path:
    """An empty directory to work in, with a gallery of one entry and an experiment in a file."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("AFTERFIT_CORES", "1")  # other processes have another gallery
    monkeypatch.setattr(papers, "entries", lambda: {Tiny.id: Tiny()})
    for command in (cli.run, cli.verify):
        monkeypatch.setattr(command, "cache_compilations", lambda: None)  # not in the process of the tests
    Path("my.toml").write_text(SETTING, encoding="utf-8")
    return tmp_path


@pytest.fixture
def bare_runs(monkeypatch):
    """Entries whose claims need no runs."""
    monkeypatch.setattr(Tiny, "run", lambda self, scale, changes=None, progress=None: {})


def call(*args: str):
    return CliRunner().invoke(cli.app, args)


def spawn(*args: str, before: str = "", **environment: str):
    """The real command in a process of its own."""
    program = f"{before}\nfrom afterfit._cli import main\nmain()"
    environ = os.environ | {"XDG_CACHE_HOME": str(Path("cache").absolute())} | environment
    return subprocess.run(
        [sys.executable, "-c", program, *args], capture_output=True, text=True, timeout=100, env=environ
    )


# ---------------------------------------------------------------------------------------------------- gallery


def test_list_and_show():
    assert "tiny2000/fig1  A tiny recovery (Fig. 1)" in call("list").stdout
    assert call("list", "--quiet").stdout == "tiny2000/fig1\n"
    assert call("list", "tiny2000", "--quiet").stdout == "tiny2000/fig1\n"
    shown = call("show", "tiny2000/fig1").stdout
    assert "two does not" in shown
    assert "strong: penalty.strength = 0.01" in shown
    setting = shown.split("'weak' at paper scale")[1].split("\n\n")[0]
    assert Experiment.from_dict(tomllib.loads(setting)) == Tiny().experiments("paper")["weak"]


def test_help_teaches():
    for command in ((), ("list",), ("show",), ("run",), ("verify",), ("diagnose",)):
        result = call(*command, "--help")
        assert result.exit_code == 0
        assert "afterfit " in result.stdout


# --------------------------------------------------------------------------------------------------- refusals


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (["show", "tiny2000/fig2"], "did you mean 'tiny2000/fig1'?"),
        (["run", "tiny2000/fgi1"], "did you mean 'tiny2000/fig1'?"),
        (["run", "tiny2000/fig1", "--scale", "papr"], "unknown scale 'papr': did you mean 'paper'?"),
        (["run", "none.toml"], "cannot read none.toml: No such file"),
        (["run", "my.toml", "--scale", "quick"], "--scale quick is for gallery entries"),
        (["run", "my.toml", "--set", "penalty.strengh=1"], "did you mean 'penalty.strength'?"),
        (["run", "my.toml", "--set", "penalty.strength=-1"], "0 or more, got -1.0"),
        (["run", "my.toml", "--set", "penalty.strength=much"], "must be a number, got 'much'"),
        (["run", "my.toml", "--set", "task.sparsity=21"], "must be between 1 and 20, got 21"),
        (["run", "my.toml", "--set", "task.N=0"], "N must be positive, got 0"),
        (["run", "my.toml", "--set", "task.kind=SparseRecoverie"], "did you mean 'SparseRecovery'?"),
        (["run", "my.toml", "--set", "seed"], "--set wants NAME=VALUE"),
        (["run", "my.toml", "--set", 'task={kind="MatrixCompletion", rows=4, rank=1}'], "MatrixCompletion"),
        (["run", "my.toml", "--out", "taken"], "taken has files in it that are not afterfit's"),
        (["verify", "tiny2001"], "did you mean 'tiny2000'?"),
        (["list", "tiny2001"], "there is no paper 'tiny2001': did you mean 'tiny2000'?"),
        (["verify", "--scale", "quik"], "did you mean 'quick'?"),
        (["verify", "--json", "no/where.json"], "there is no directory no"),
        (["diagnose", "none.csv"], "there is no file none.csv"),
        (["diagnose", "curves.csv"], "cannot tell which column is time: name it with --time, one of: a, b"),
        (["diagnose", "curves.csv", "--time", "x"], "cannot tell which column is train"),
    ],
)
def test_refused_in_one_sentence_before_any_work(args, said, place):
    Path("curves.csv").write_text("a,b\n1,2\n", encoding="utf-8")
    Path("taken").mkdir()
    Path("taken/thesis.tex").write_text("years of work", encoding="utf-8")
    before = sorted(place.rglob("*"))
    result = call(*args)
    assert result.exit_code == 2
    assert result.stdout == ""
    assert said in result.stderr
    assert len(result.stderr.splitlines()) == 1
    assert sorted(place.rglob("*")) == before


def test_no_traceback_from_the_real_command():
    result = spawn("run", "my.toml", "--set", "dynamics.stepz=3")
    assert (result.returncode, result.stdout) == (2, "")
    assert result.stderr == "Error: there is no setting 'dynamics.stepz': did you mean 'dynamics.steps'?\n"


def test_completion_of_an_id():
    words = {"COMP_WORDS": "afterfit show lyu", "COMP_CWORD": "2", "_AFTERFIT_COMPLETE": "complete_bash"}
    result = spawn(before="import sys; sys.argv[0] = 'afterfit'", **words)
    assert "lyu2023/fig3" in result.stdout.split()
    assert [scale for scale, _ in complete_scale("p")] == ["paper"]
    assert [id for id, _ in complete_job("")] == ["tiny2000/fig1", "my.toml"]


# --------------------------------------------------------------------------------------------------------- run


def test_run_of_a_file_leaves_verdict_runs_picture_and_report():
    result = call("run", "my.toml", "--set", "dynamics.steps=500", "--set", "seed=1")
    assert result.exit_code == 0, result.output
    out = Path("results/my")
    run = af.load(out / "runs/my")
    assert run.spec["dynamics"]["steps"] == 500
    assert run.spec["seed"] == 1
    assert run.verdict.describe() in result.stdout
    assert (out / "figure.png").read_bytes().startswith(b"\x89PNG")
    assert "afterfit run my.toml --set dynamics.steps=500 --set seed=1" in (out / "report.html").read_text("utf-8")
    for name in ("runs", "figure.png", "report.html"):
        assert str(out / name) in result.stdout


def test_a_run_is_judged_by_the_levels_asked_for():
    weak = ("--set", "penalty.strength=2e-4", "--set", "dynamics.lr=0.03", "--set", "dynamics.steps=300_000")
    plain = call("run", "my.toml", *weak, "--out", "a").stdout
    assert plain.startswith("Never fitted")
    (level,) = re.findall(r"has settled at [\d.e-]+, above the threshold .*\(fit=([\d.e-]+)\)", plain)
    judged = call("run", "my.toml", *weak, "--fit", level, "--out", "b").stdout
    assert not judged.startswith("Never fitted")
    assert f"train error ≤ {number(float(level))}" in judged
    page = (Path("b") / "report.html").read_text(encoding="utf-8")
    assert f"--fit {float(level)}" in page, "what reproduces it"
    (saved,) = Path("b/runs").iterdir()
    assert af.load(saved).verdict.kind == "never fitted", "the files say what the experiment says"


@pytest.mark.parametrize("level", ["nan", "-1", "inf"])
def test_levels_that_cannot_be_are_refused_before_the_run(level):
    refused = call("run", "my.toml", "--set", "dynamics.steps=1_000_000_000_000", f"--fit={level}", "--out", "c")
    assert refused.exit_code == 2
    assert re.search(r"^Error: (a threshold must be|no error is below 0)", refused.stderr)
    assert not Path("c").exists()


def test_the_text_of_a_smaller_run_says_its_sizes(monkeypatch):
    sizes = {"quick": {"task.n": 14, "penalty.strength": 1e-2}, "paper": {}}
    base = Tiny().experiments("paper")["weak"]
    monkeypatch.setattr(Tiny, "runs", lambda self, scale: {"weak": base.set(sizes[scale])})
    said = "task.n = 14 (not 20), penalty.strength = 0.01 (not 0.001)"
    assert said in " ".join(call("show", Tiny.id, "--scale", "quick").stdout.split())
    assert "not 20" not in call("show", Tiny.id).stdout
    call("run", Tiny.id, "--scale", "quick", "--out", "quick")
    assert said in Path("quick/report.html").read_text(encoding="utf-8")
    call("run", Tiny.id, "--set", "observations=30", "--out", "changed")
    assert "observations = 30 (not 40)" in Path("changed/report.html").read_text(encoding="utf-8")


def test_run_of_an_entry_that_diverges_says_which_knob_to_turn(monkeypatch):
    def confused(self, runs):
        raise KeyError("nothing to draw")

    monkeypatch.setattr(Tiny, "picture", confused)
    result = call("run", "tiny2000/fig1", "--quiet", "--set", "dynamics.lr=1e3", "--out", "deep/er")
    assert result.exit_code == 0, result.output
    assert result.stdout.splitlines() == [
        "weak: Diverged",
        "strong: Diverged",
        *(str(Path("deep/er") / name) for name in ("runs", "figure.png", "report.html")),
    ]
    assert result.stderr.count("try a smaller step size: dynamics.lr=1e+02") == 2
    assert "the picture of tiny2000/fig1 cannot be drawn" in result.stderr
    assert Path("deep/er/figure.png").is_file()
    assert [af.load(f"deep/er/runs/{name}").status for name in ("weak", "strong")] == ["diverged"] * 2


def test_interrupted_run_is_kept_and_replaces_nothing():
    interrupt = """
import contextlib, os, signal, sys
import afterfit
signal.signal(signal.SIGINT, signal.default_int_handler)  # a background shell ignores Ctrl-C

@contextlib.contextmanager
def bar(*_):
    calls = []
    def update(share):
        calls.append(share)
        if len(calls) == 30:
            os.kill(os.getpid(), signal.SIGINT)
    yield update

import afterfit._training.train
afterfit._training.train.progress_bar = bar
"""
    make_run().save("here/runs/my")
    Path("here/.afterfit").touch()
    command = ("run", "my.toml", "--set", "dynamics.steps=100_000_000", "--out", "here")
    # As users compile: what is compiled in a moment is not kept.
    result = spawn(*command, before=interrupt, JAX_COMPILATION_CACHE_DIR="", XLA_FLAGS="")
    assert result.returncode == 130, result.stderr
    run = af.load("here/runs/my-interrupted")
    assert run.status == "interrupted"
    assert 20 <= run.curves.sizes["time"] <= 40
    assert str(run.verdict) in result.stdout
    assert result.stderr.startswith("interrupted at t=")
    assert "\x1b" not in result.stdout + result.stderr, "colours are for terminals"
    assert "Theory was not asked" in Path("here/report.html").read_text(), "nobody waits for it any more"
    assert af.load("here/runs/my").status == "finished", "the earlier run is as it was"
    assert any(Path("cache/afterfit/jax").iterdir()), "compiled code is kept for the next call"


def snapshot(place: Path) -> dict[Path, bytes | None]:
    return {path: path.read_bytes() if path.is_file() else None for path in place.rglob("*")}


@pytest.mark.parametrize(
    ("foreign", "said"),
    [
        ("runs/mine/thesis.tex", "has files in it that are not afterfit's"),
        ("report.html", "has files in it that are not afterfit's"),
        ("figure.png", "has files in it that are not afterfit's"),
        (".afterfit/notes", "has files in it that are not afterfit's"),
        (("runs/my/thesis.tex", ".afterfit"), "here/runs/my is not a run"),
        (("runs/my-interrupted", ".afterfit"), "here/runs/my-interrupted is not a run"),
        (("figure.png/old.png", ".afterfit"), "here/figure.png is a directory"),
    ],
)
def test_what_is_not_ours_is_refused_before_the_run(place, monkeypatch, foreign, said):
    monkeypatch.setattr(cli.run, "cache_compilations", lambda: pytest.fail("it was not"))
    for file in (foreign,) if isinstance(foreign, str) else foreign:
        (place / "here" / file).parent.mkdir(parents=True, exist_ok=True)
        (place / "here" / file).write_text("precious", encoding="utf-8")
    before = snapshot(place)
    result = call("run", "my.toml", "--out", "here")
    assert result.exit_code == 2
    assert said in result.stderr
    assert len(result.stderr.splitlines()) == 1
    assert snapshot(place) == before


def test_results_may_be_replaced_and_files_beside_them_stay(place):
    options = ("run", "my.toml", "--set", "dynamics.steps=500", "--out", "here", "--quiet")
    (place / "here").mkdir()
    assert call(*options).exit_code == 0
    (place / "here/notes.md").write_text("precious", encoding="utf-8")
    assert call(*options, "--set", "seed=4").exit_code == 0
    assert af.load("here/runs/my").spec["seed"] == 4
    assert (place / "here/notes.md").read_text("utf-8") == "precious"
    assert not list(place.rglob(".afterfit-*")), "nothing is left behind"


@pytest.mark.parametrize("experiment", ["my.toml", "tiny2000/fig1"])
def test_a_run_that_cannot_be_written_where_asked_is_kept_elsewhere(place, monkeypatch, experiment):
    """Somebody puts a file in the place of the directory while the run goes on."""

    def meanwhile():
        shutil.rmtree("out/here")
        Path("out/here").write_text("precious", encoding="utf-8")

    monkeypatch.setattr(cli.run, "cache_compilations", meanwhile)  # what comes between the directory and the run
    result = call("run", experiment, "--set", "dynamics.steps=500", "--out", "out/here")
    assert result.exit_code == 2
    assert Path("out/here").read_text("utf-8") == "precious"
    kept = [Path(words.split(": the run is in ")[1].rstrip(".")) for words in result.stderr.splitlines()[:-1]]
    assert len(kept) == (1 if experiment == "my.toml" else 2)
    for directory in kept:
        assert directory.parent == place / "out"
        assert str(af.load(directory).verdict) in result.stdout, "and its verdict is told"


def test_names_become_places_of_their_own(place):
    from afterfit._cli.run import _places

    names = ("a b", "a-b", "..", ".", "../../x", "ü" * 300, "caf\udce9", "")
    places = _places(Path("runs"), names)
    assert len(set(places.values())) == len(names)
    for directory in places.values():
        assert directory.parent == Path("runs")
        assert not directory.name.startswith(".")
        (directory.with_name(f"{directory.name}-interrupted")).mkdir(parents=True)
    assert len(list(Path("runs").iterdir())) == len(names)


def test_a_file_whose_name_is_not_utf8(place):
    name = b"caf\xe9.toml"
    (Path(os.fsdecode(os.fsencode(place) + b"/" + name))).write_text(SETTING, encoding="utf-8")
    result = spawn("run", os.fsdecode(name), "--set", "dynamics.steps=500", "--quiet")
    assert result.returncode == 0, result.stderr
    assert af.load("results/caf-/runs/caf-").status == "finished"


# ------------------------------------------------------------------------------------------------------ verify


def test_verify_prints_the_ledger_and_fails_with_a_claim():
    result = call("verify", "--json", "ledger.json")
    assert result.exit_code == 1, result.output
    lines = result.stdout.splitlines()
    assert lines[0].startswith("holds    tiny2000/fig1: one holds (quick, ")
    assert lines[1:4] == ["         paper:    1 ≤ 2", "         measured: 1", "         rejected: of three: 3"]
    assert lines[4].startswith("FAILS    tiny2000/fig1: two does not (quick, ")
    assert lines[-1] == "2 claims: 1 hold, 1 DO NOT HOLD"
    assert "\x1b" not in result.output
    rows = json.loads(Path("ledger.json").read_text("utf-8"))
    keys = ["id", "claim", "paper_says", "measured", "holds", "scale", "seconds", "control", "erratum", "as_recorded"]
    keys += ["changed"]
    assert [list(row) for row in rows] == [keys] * 2
    assert [(row["holds"], row["control"], row["erratum"]) for row in rows] == [
        (True, "of three: 3", None),
        (False, None, None),
    ]


class Recorded(Tiny):
    """An entry that knows of itself what fails; `number` is what is measured."""

    name = "recorded"
    number = 2

    @claim("two does not", says="2 ≤ 1", fails="because 2 > 1")
    def two(self):
        return Finding(str(self.number), self.number <= 1)

    @claim("its square is 5", says="5, in (3)")
    def square(self):
        return Finding(str(self.number**2), self.number**2 == 5)

    @correction(square, "its square is 4", why="2 · 2 = 4, and (3) adds 1.", touches="No: nothing rests on it.")
    def right(self):
        return Finding(str(self.number**2), self.number**2 == 4)


@pytest.mark.usefixtures("bare_runs")
def test_verify_is_about_what_is_recorded_and_strict_about_what_is_printed(monkeypatch):
    monkeypatch.setattr(papers, "entries", lambda: {Recorded.id: Recorded()})
    as_recorded = call("verify", "--json", "ledger.json")
    assert as_recorded.exit_code == 0, as_recorded.output
    assert as_recorded.stdout.splitlines()[-1] == (
        "3 claims: 1 hold, 1 are errata and confirmed, 1 do not hold, as recorded"
    )
    assert "         erratum:  its square is 4" in as_recorded.stdout
    erratum = json.loads(Path("ledger.json").read_text("utf-8"))[-1]
    assert (erratum["holds"], erratum["erratum"], erratum["as_recorded"]) == (False, "its square is 4", True)
    assert erratum["measured"] == "as printed: 4; corrected: 4"
    assert call("verify", "--strict", "--quiet").exit_code == 1
    monkeypatch.setattr(Recorded, "number", 1)  # now two holds after all, and neither square is right
    changed = call("verify", "--fresh", "--quiet")
    assert changed.exit_code == 1
    assert [line.split()[0] for line in changed.stdout.splitlines()[:3]] == ["holds", "HOLDS", "FAILS"]


@pytest.mark.usefixtures("bare_runs")
def test_a_claim_whose_control_passes_does_not_hold(monkeypatch):
    monkeypatch.setattr(papers, "entries", lambda: {Recorded.id: Recorded()})
    (one, *_) = Recorded.claims
    passing = dataclasses.replace(one.controls[0], check=lambda self: Finding("3", True))
    monkeypatch.setattr(Recorded, "claims", (dataclasses.replace(one, controls=(passing,)),))
    result = call("verify")
    assert result.exit_code == 1
    assert result.stdout.startswith("FAILS")
    assert "1; but the check passes what it should reject, of three" in result.stdout


@pytest.mark.usefixtures("bare_runs")
def test_a_claim_that_fails_has_a_check_that_could_be_passed(monkeypatch):
    """A check that rejects everything shows nothing: where it is put to what it must accept, that is noticed."""

    class Failing(Tiny):
        name = "failing"
        limit = 1

        @claim("two does not", says="2 ≤ 1", fails="because 2 > 1", changed="It was 2 ≤ 0 before; seed 7.")
        def two(self):
            return self.at_most(2)

        @passing(two, "one")
        def one_does(self):
            return self.at_most(1)

        def at_most(self, number):
            return Finding(str(number), number <= self.limit)

    monkeypatch.setattr(papers, "entries", lambda: {Failing.id: Failing()})
    result = call("verify")
    assert result.exit_code == 0, result.output
    assert "         control: accepted, one: 1\n         changed:  It was 2 ≤ 0 before; seed 7." in result.stdout
    monkeypatch.setattr(Failing, "limit", 0)
    result = call("verify", "--fresh")
    assert result.exit_code == 1
    assert "2; but the check rejects what it should pass, one" in result.stdout


def test_marks_that_contradict_are_refused():
    with pytest.raises(af.SpecError, match="has a correction, which says why it fails"):

        class Both(Tiny):
            @claim("six", says="6", fails="it is 7")
            def six(self):
                return Finding("7", False)

            @correction(six, "seven", why="", touches="")
            def seven(self):
                return Finding("7", True)

    with pytest.raises(af.SpecError, match="lost refers to place, which is no claim"):

        class Lost(Tiny):
            @control(place, "nothing")
            def lost(self):
                return Finding("", False)


@pytest.mark.usefixtures("bare_runs")
def test_verify_goes_on_after_an_error_and_keeps_stdout_for_json(monkeypatch):
    monkeypatch.setattr(papers, "entries", lambda: {Broken.id: Broken(), Tiny.id: Tiny()})
    result = call("verify", "tiny2000", "--json", "-", "--scale", "paper")
    assert result.exit_code == 1
    assert [(row["claim"], row["scale"]) for row in json.loads(result.stdout)] == [
        ("one holds", "paper"),
        ("two does not", "paper"),
    ]
    assert "error  tiny2000/broken, two does not: ZeroDivisionError: by zero" in result.stderr
    assert "4 claims: 1 hold, 1 DO NOT HOLD, 2 ended in an error" in result.stderr


@pytest.mark.usefixtures("bare_runs")
def test_interrupted_verify_keeps_what_it_has_and_judges_nothing_more(monkeypatch):
    monkeypatch.setattr(papers, "entries", lambda: {Tiny.id: Tiny(), Interrupted.id: Interrupted()})
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        result = call("verify", "--json", "ledger.json", "--quiet")
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    finally:
        signal.signal(signal.SIGINT, before)
    assert result.exit_code == 130
    assert result.stdout.splitlines() == ["holds    tiny2000/fig1: one holds", "FAILS    tiny2000/fig1: two does not"]
    assert len(json.loads(Path("ledger.json").read_text("utf-8"))) == 2


def test_verify_goes_on_where_it_was_stopped(monkeypatch):
    """Rows are kept as they are measured: only what is missing is measured, and all of it with --fresh."""
    asked = []

    class Watched(Tiny):
        name = "watched"
        broken = True

        @claim("three is reached", says="3")
        def three(self, weak):
            if self.broken:
                raise ZeroDivisionError("not yet")
            return Finding(weak.status, True)

        def run(self, scale, changes=None, progress=None):
            asked.append(scale)
            return {name: make_run() for name in self.experiments(scale)}

    monkeypatch.setattr(papers, "entries", lambda: {Watched.id: Watched()})
    first = call("verify")
    assert "error  tiny2000/watched, three is reached: ZeroDivisionError: not yet" in first.stderr
    assert "3 claims: 1 hold, 1 DO NOT HOLD, 1 ended in an error" in first.stdout
    with Path("results/ledger.jsonl").open("a", encoding="utf-8") as file:
        file.write('{"id": "tiny2000/watched", "cla')  # the process was killed while it wrote
    monkeypatch.setattr(Watched, "broken", False)
    second = call("verify", "--json", "ledger.json")
    assert asked == ["quick"] * 2
    assert re.search(r"one holds \(quick, measured on \d{4}-\d\d-\d\d\)", second.stdout)
    assert "three is reached (quick, " in second.stdout
    assert "3 claims: 2 hold, 1 DO NOT HOLD" in second.stdout
    call("verify", "--quiet")
    assert asked == ["quick"] * 2, "nothing was left to be measured"
    kept = json.loads(Path("ledger.json").read_text("utf-8"))
    assert [row["claim"] for row in kept] == ["one holds", "two does not", "three is reached"]
    call("verify", "--scale", "paper", "--quiet")
    call("verify", "--fresh", "--quiet")
    assert asked == ["quick", "quick", "paper", "quick"]
    monkeypatch.setattr("afterfit.papers._ledger.code_of", lambda entry: "another")
    call("verify", "--quiet")
    assert asked[4:] == ["quick"], "the code has changed"


def test_runs_are_kept_until_all_rows_are_measured(monkeypatch):
    """A row that fails costs no run again, nor does an entry that asks for another's; --fresh computes all anew."""
    ended = {}

    class First(Tiny):
        name = "first"
        broken = True

        @claim("two does not", says="2 ≤ 1", fails="because 2 > 1")
        def two(self, weak, strong):
            ended.setdefault("first", []).append((weak.ended, strong.ended))
            if self.broken:
                raise ZeroDivisionError("not yet")
            return Finding("2", False)

    class Second(Tiny):
        name = "second"

        def runs(self, scale):
            return {"again": super().runs(scale)["strong"]}

        @claim("two does not", says="2 ≤ 1", fails="because 2 > 1")
        def two(self, again):
            ended.setdefault("second", []).append(again.ended)
            return Finding("2", False)

    class Other(Tiny):
        name = "other"

        def runs(self, scale):
            return {"weak": super().runs(scale)["weak"].set({"seed": 7})}

        @claim("two does not", says="2 ≤ 1", fails="because 2 > 1")
        def two(self, weak):
            return Finding("2", False)

    def kept():
        return sorted(path.parent.name for path in Path("results").glob("ledger.runs/*/*/run.json"))

    monkeypatch.setattr(papers, "entries", lambda: {each.id: each() for each in (First, Second, Other)})
    ids = sorted(experiment.id for experiment in First().experiments("quick").values())
    old = Path("results/ledger.runs/0123456789abcdef")
    old.mkdir(parents=True)
    assert call("verify", "--quiet", First.id, Second.id).exit_code == 1
    assert kept() == ids
    assert call("verify", "--quiet", Other.id).exit_code == 0
    assert kept() == ids, "what another command will go on from"
    assert not old.exists(), "runs of other code are of no use"
    monkeypatch.setattr(First, "broken", False)
    assert call("verify", "--quiet").exit_code == 0
    assert ended["first"][0] == ended["first"][1], "its runs were computed twice"
    assert ended["second"] == [ended["first"][0][1]], "the other entry's run was computed twice"
    assert kept() == []
    assert call("verify", "--quiet", "--fresh").exit_code == 0
    assert ended["first"][2] != ended["first"][1]
    assert kept() == []


def test_a_ledger_that_is_none_is_refused():
    Path("notes.txt").write_text("{years: of work}\nand more\n", encoding="utf-8")
    refused = call("verify", "--ledger", "notes.txt")
    assert refused.exit_code == 2
    assert "notes.txt, line 1 is no row of a ledger" in refused.stderr
    assert Path("notes.txt").read_text("utf-8").startswith("{years")


def test_a_check_that_asks_for_what_there_is_not_is_refused_before_any_run(monkeypatch):
    class Mistaken(Tiny):
        name = "mistaken"

        @claim("it asks", says="for a run")
        def asks(self, week):
            return Finding("", True)

    monkeypatch.setattr(papers, "entries", lambda: {Mistaken.id: Mistaken()})
    refused = call("verify")
    assert refused.exit_code == 2
    assert "tiny2000/mistaken: asks asks for 'week': did you mean 'weak'?" in refused.stderr
    assert not Path("results").exists()


# ---------------------------------------------------------------------------------------------------- diagnose


def test_diagnose_curves_from_elsewhere():
    t = np.logspace(-2, 6, 161)
    columns = np.stack([t, 1 - np.exp(-t) / 2, 1 - 0.5 / (1 + (t / 1e4) ** 4), 1 / (1 + t)], axis=1)
    np.savetxt("log.csv", columns, delimiter=";", header="Step;train/acc;val/acc;norm", comments="")
    result = call("diagnose", "log.csv", "--norm", "norm")
    assert result.exit_code == 0, result.output
    assert result.stdout.startswith("Grokking: fitted at t=")
    assert "'Step' is time, 'train/acc' is train, 'val/acc' is test" in result.stdout
    assert "train is read as an accuracy, fitted at ≥ 0.99" in result.stdout

    verdict = json.loads(call("diagnose", "log.csv", "--json", "--generalise", "0.9", "--fit", "0.98").stdout)
    assert verdict["kind"] == "grokking"
    assert verdict["criteria"]["test"] == {"like": "accuracy", "value": 0.9}
    quiet = call("diagnose", "log.csv", "-q", "--train", "norm", "--train-like", "error")
    assert len(quiet.stdout.splitlines()) == 1
    assert "has no column 'vall'" in call("diagnose", "log.csv", "--test", "vall").stderr


SPARSE = {"train_acc": (0.1, 1, 1, 1, 1), "val_acc": (0.1, 0.1, 0.1, 0.8, 1.0)}
LOSSES = {"train_loss": (2.3, 1e-3, 1e-4, 1e-5, 1e-6), "val_loss": (2.3, 0.1, 0.1, 0.1, 0.1)}  # with the fit


def write_log(columns: dict, name: str | bytes = "log.csv", encoding: str = "utf-8") -> None:
    rows = [list(columns), *zip(*columns.values(), strict=True)]
    with open(name, "w", encoding=encoding) as file:
        file.writelines(",".join(map(str, row)) + "\n" for row in rows)


@pytest.mark.parametrize(
    ("columns", "options", "taken"),
    [
        (LOSSES | SPARSE, [], "'train_acc' is train, 'val_acc' is test; left aside: 'train_loss', 'val_loss'."),
        (LOSSES | SPARSE, ["--test", "val_acc"], "'train_acc' is train, 'val_acc' is test"),
        (
            {"accuracy": SPARSE["train_acc"], "loss": LOSSES["train_loss"], "val_accuracy": SPARSE["val_acc"]},
            [],
            "'accuracy' is train, 'val_accuracy' is test; left aside: 'loss'.",
        ),
        ({"time": 1.7e9 + np.arange(5)} | SPARSE, [], "'step' is time"),
        (
            {"train_accum_loss": (2.3, 1e-3, 1e-4, 1e-5, 1e-6), "val_loss": (2.3, 2.3, 2.3, 2.0, 0.1)},
            ["--train", "train_accum_loss"],
            "train is read as an error",
        ),
        ({"train_acc": (0.1, "", 1, 1, 1), "val_acc": (0.1, 0.1, "nan", 0.8, 1.0)}, [], "Grokking"),
        ({name: np.multiply(100, curve) for name, curve in SPARSE.items()}, [], "generalised at ≥ 95"),
    ],
)
def test_diagnose_takes_the_columns_that_tell_most(columns, options, taken):
    write_log({"step": (1, 10, 100, 1000, 100_000)} | columns)
    result = call("diagnose", "log.csv", *options)
    assert result.exit_code == 0, result.output
    assert result.stdout.startswith("Grokking: ")
    assert taken in result.stdout


def test_diagnose_losses_where_the_test_curve_is_one():
    write_log({"step": (1, 10, 100, 1000, 100_000)} | SPARSE | LOSSES)
    result = call("diagnose", "log.csv", "--test", "val_loss")
    assert "'train_loss' is train, 'val_loss' is test" in result.stdout


def test_a_loss_that_blows_up_beside_accuracies_is_divergence():
    curves = {"train_loss": (1, 0.1, 0.1, 8e27, 8e27), "train_acc": (0.1, 0.5, 0.5, 0.1, 0.1), "val_acc": (0.1,) * 5}
    write_log({"step": (1, 10, 100, 1000, 100_000)} | curves)
    assert call("diagnose", "log.csv", "-q").stdout == "Diverged\n"


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16"])
def test_files_with_byte_order_marks_are_read(encoding):
    write_log({"step": (1, 10, 100, 1000, 100_000)} | SPARSE, encoding=encoding)
    assert call("diagnose", "log.csv", "-q").stdout.startswith("Grokking: ")


@pytest.mark.skipif(sys.platform == "darwin", reason="its file names are UTF-8")
def test_a_file_whose_name_is_not_utf8_is_read_or_refused_in_a_sentence():
    name = b"log\xff.csv"
    write_log({"step": (1, 10, 100, 1000, 100_000)} | SPARSE, name)
    done = spawn("diagnose", os.fsdecode(name))
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("Grokking")
    refused = spawn("diagnose", os.fsdecode(name), "--train", "x")
    assert (refused.returncode, len(refused.stderr.splitlines())) == (2, 1)


def test_a_run_too_short_for_a_verdict_is_kept_and_says_so(tmp_path):
    options = ["--scale", "quick", "--set", "dynamics.steps=1", "--out", str(tmp_path / "out")]
    done = call("run", "tiny2000/fig1", *options)
    assert done.exit_code == 0, done.output
    assert "No verdict: diagnosis needs at least 3 observations" in done.output
    assert (tmp_path / "out" / "runs" / "weak" / "curves.parquet").is_file()
    assert (tmp_path / "out" / "figure.png").is_file()
    assert "No verdict" in (tmp_path / "out" / "report.html").read_text(encoding="utf-8")


def test_what_the_machine_cannot_do_is_no_bug_of_ours(monkeypatch, tmp_path):
    Path("my.toml").write_text(SETTING, encoding="utf-8")
    for error, said in (
        (MemoryError("Unable to allocate 7 TiB"), "not enough memory"),
        (RuntimeError("RESOURCE_EXHAUSTED: Out of memory allocating 7 bytes."), "not enough memory"),
        (RecursionError("maximum recursion depth exceeded"), "nested too deeply"),
    ):

        def fail(*_, error=error, **__):
            raise error

        monkeypatch.setattr("afterfit._training.train.run_experiment", fail)
        done = call("run", "my.toml", "--out", str(tmp_path / said.replace(" ", "-")))
        assert (done.exit_code, said in done.stderr, "bug" in done.stderr) == (2, True, False), done.stderr


def test_long_work_says_so_before_it_begins(monkeypatch):
    Path("my.toml").write_text(SETTING, encoding="utf-8")

    def stop(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr("afterfit._training.train.run_experiment", stop)
    done = call("run", "my.toml", "--set", "dynamics.steps=100_000_000_000")
    assert "A run takes 2.78 h at least" in done.stdout
    assert "at least" not in call("run", "my.toml").stdout


def test_a_file_whose_name_is_no_utf8(tmp_path):
    path = os.fsdecode(os.fsencode(tmp_path) + b"/odd\xff.toml")
    Path(path).write_text(SETTING, encoding="utf-8")
    done = call("run", path, "--out", str(tmp_path / "out"))
    assert done.exit_code == 0, done.stderr
    assert "odd?.toml" in (tmp_path / "out" / "report.html").read_text(encoding="utf-8")
