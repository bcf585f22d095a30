"""The report is one valid page that needs nothing else."""

from __future__ import annotations

import dataclasses
import re
import tomllib
from html.parser import HTMLParser

import pytest
from test_plot import SPEC, make_run

import afterfit as af
from afterfit._reports import warning, write_report
from afterfit._training.experiment import Experiment, spec_to_toml

_VOID = {"meta", "img"}


class _Page(HTMLParser):
    """Checks that tags are closed in order, and collects the text, the tags and the links."""

    def __init__(self, page: str):
        super().__init__()
        self.open: list[str] = []
        self.tags: list[str] = []
        self.sources: list[str] = []
        self.text = ""
        self.feed(page)
        self.close()
        assert not self.open, f"left open: {self.open}"

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.sources += [value for name, value in attrs if name in ("src", "href", "srcset", "data", "action")]
        if tag not in _VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if self.open and self.open[-1] != "style":
            self.text += data


def read(path) -> _Page:
    page = path.read_text(encoding="utf-8")
    assert page.startswith("<!DOCTYPE html>")
    outside = re.sub(r"base64,[A-Za-z0-9+/=]+", "", page)
    assert not re.search(r"https?://|//[a-z]|@import|url\(", outside), "the page must not reach out"
    return _Page(page)


def test_one_page_holds_everything(tmp_path, monkeypatch):
    monkeypatch.setattr("afterfit._reports.runs._DRAWN", 2)
    names = ["λ=1e-3 <b>&", "l2", "diverging", "late"]
    kinds = ["grokking", "accuracy", "diverged", "with the fit"]
    runs = {name: make_run(kind) for name, kind in zip(names, kinds, strict=True)}
    runs["l2"] = make_run("accuracy", spec=SPEC | {"seed": 77}, status="interrupted", message="cut at t<9")
    write_report(
        tmp_path / "r.html",
        title="A <title> & more",
        runs=runs,
        figure=make_run().plot(),
        about="First.\n\nSecond with <tag>, never <script>.",
        command="afterfit run x --set 'a=\"<b>\"'",
    )
    page = read(tmp_path / "r.html")
    for run in runs.values():
        assert str(run.verdict) in page.text
        for sentence in run.verdict.evidence:
            assert sentence in page.text
    for words in (
        *names,
        "A <title> & more",
        "Second with <tag>, never <script>.",
        "interrupted: cut at t<9",
        "--set 'a=\"<b>\"'",
        "steps 1,000,000",
        "1.5 s",
        "penalty.strength",
        "77",
        "jaxlib",
    ):
        assert words in page.text, words
    assert "script" not in page.tags
    assert page.tags.count("img") == 3  # the picture, and the first two runs
    assert all(source.startswith("data:image/png;base64,") for source in page.sources)
    assert [path.name for path in tmp_path.iterdir()] == ["r.html"]


def test_one_run_needs_no_more_than_itself(tmp_path):
    page = read(write_report(tmp_path / "r.html", "One", {"run": make_run()}))
    assert page.tags.count("img") == 1
    assert "where it differs" not in page.text
    other = make_run(versions={**make_run().versions, "numpy": "1.0.7"})
    page = read(write_report(tmp_path / "r.html", "One", {"run": other}))
    assert "numpy1.0.7" in "".join(page.text.split()), "what computed the run, not what wrote the page"
    assert "where it differs" in page.text


def test_the_page_in_python_is_that_of_the_command_line(tmp_path):
    run = make_run()
    page = read(af.report(run, tmp_path / "new" / "r.html", thorough=True))
    assert "SparseRecovery · Linear · GradientDescent" in page.text
    body = (tmp_path / "new/r.html").read_text(encoding="utf-8").split("</h1>")[1]
    write_report(tmp_path / "o.html", "One", {"run": run}, thorough=True)
    other = (tmp_path / "o.html").read_text(encoding="utf-8").split("</h1>")[1]
    assert body == other
    assert run.report(tmp_path / "m.html", thorough=True).read_text(encoding="utf-8").split("</h1>")[1] == body
    both = read(af.report({"one": run, "two": make_run("accuracy")}, tmp_path / "b.html"))
    assert "2 runs" in both.text
    for wrong in (None, {}, {"one": 1}, [run]):
        with pytest.raises(af.SpecError, match="a report"):
            af.report(wrong, tmp_path / "w.html")
    assert not (tmp_path / "w.html").exists()


@pytest.mark.parametrize("penalty", [{"kind": "L1", "strength": 1e-5}, {"kind": "NoPenalty"}])
def test_specification_survives_toml(penalty):
    spec = Experiment.from_dict(SPEC | {"penalty": penalty})
    assert Experiment.from_dict(tomllib.loads(spec.to_toml())) == spec


def test_toml_of_nested_nouns_and_strange_numbers():
    penalties = [{"kind": "L1", "strength": 1e-5}, {"kind": "L2", "strength": float("inf")}]
    spec = {"penalty": {"kind": "Sum", "penalties": penalties, "of": 'a"b\\', "none": None, "flag": True}}
    read_back = tomllib.loads(spec_to_toml(spec))["penalty"]
    assert read_back == {"kind": "Sum", "penalties": penalties, "of": 'a"b\\', "flag": True}


def test_a_run_that_settled_is_not_reported_as_one_that_went_wrong():
    run = af.train(
        task=af.tasks.SparseRecovery(n=10, sparsity=1, N=6),
        model=af.models.Linear(),
        penalty=af.penalties.L1(1e-2),
        init=af.inits.Gaussian(0.5),
        dynamics=af.dynamics.GradientFlow("settled"),
        observations=20,
    )
    assert run.message.startswith("settled")
    assert warning(run) == ""
    assert warning(dataclasses.replace(run, status="step limit", message="it stopped.")) == "step limit: it stopped."
