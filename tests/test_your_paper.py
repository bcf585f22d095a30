"""A paper of one's own: the one that the documentation shows, from its file and from an installed package."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from test_docs import ROOT, blocks
from typer.testing import CliRunner

from afterfit import SpecError, papers
from afterfit._cli import app
from afterfit._cli._app import complete_job

PAGE = ROOT / "docs/your-paper.md"


@pytest.fixture(scope="module")
def source(tmp_path_factory) -> Path:
    """The paper as the page shows it: a file, and beside it what makes it a package."""
    place = tmp_path_factory.mktemp("source")
    for language, name in (("python", "doe2027.py"), ("toml", "pyproject.toml")):
        (block,) = blocks(PAGE, language)
        (place / name).write_text("\n".join(block.lines) + "\n", encoding="utf-8")
    return place


@pytest.fixture(scope="module")
def installed(source, tmp_path_factory) -> Path:
    """A directory into which pip has installed it."""
    place = tmp_path_factory.mktemp("installed")
    options = ("--quiet", "--no-deps", "--no-build-isolation", "--no-index", "--target", str(place))
    pip = [sys.executable, "-m", "pip", "install", *options, str(source)]
    subprocess.run(pip, check=True, capture_output=True, timeout=200)
    return place


def afterfit(*args: str, here: Path, path: Path | None = None) -> subprocess.CompletedProcess[str]:
    """The command in a process of its own, in the directory `here`, with packages of `path` installed."""
    cache = {"XDG_CACHE_HOME": str(here / "cache")}
    search = {"PYTHONPATH": os.pathsep.join(filter(None, (str(path or ""), os.environ.get("PYTHONPATH", ""))))}
    program = [sys.executable, "-c", "from afterfit._cli import main; main()", *args]
    return subprocess.run(
        program, cwd=here, env={**os.environ, **cache, **search}, capture_output=True, text=True, timeout=300
    )


def test_it_is_short(source):
    assert len((source / "doe2027.py").read_text(encoding="utf-8").splitlines()) < 60


def test_an_installed_paper_is_in_the_gallery(installed, tmp_path):
    listed = afterfit("list", "--quiet", here=tmp_path, path=installed)
    assert listed.stderr == ""
    assert {"doe2027/fig1", "lyu2023/fig1a"} <= set(listed.stdout.split())
    shown = afterfit("show", "doe2027/fig1", "--scale", "quick", here=tmp_path, path=installed)
    assert "Doe 2027, Patience is one over decay, Fig. 1, §2" in shown.stdout
    checked = afterfit("verify", "doe2027", "--json", "-", here=tmp_path, path=installed)
    assert checked.returncode == 0, checked.stderr
    rows = json.loads(checked.stdout)
    assert [row["id"] for row in rows] == ["doe2027/fig1"] * 2
    assert all(row["holds"] and row["control"] for row in rows)
    assert (tmp_path / "results/ledger.jsonl").is_file()


def test_a_file_is_listed_run_and_drawn(source, tmp_path):
    listed = afterfit("list", str(source / "doe2027.py"), here=tmp_path)
    assert f"{source / 'doe2027.py'}::fig1" in listed.stdout
    shorter = ("--set", "dynamics.until=5.0", "--set", "observations=30")
    ran = afterfit("run", f"{source / 'doe2027.py'}::fig1", "--scale", "quick", *shorter, "--quiet", here=tmp_path)
    assert ran.returncode == 0, ran.stderr
    (page,) = tmp_path.glob("results/*/report.html")
    text = page.read_text(encoding="utf-8")
    assert "Patience is one over decay" in text
    assert "::fig1" in text, "what reproduces it"
    (picture,) = tmp_path.glob("results/*/figure.png")
    assert picture.read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("empty_paper.py", "", "empty_paper.py defines no gallery entry"),
        ("broken_paper.py", "1 / 0", "broken_paper.py cannot be imported: ZeroDivisionError: division by zero"),
        (
            "my-paper.py",
            "",
            "my-paper.py cannot be imported: a paper is a Python file whose name is a name of Python's",
        ),
        ("json.py", "", "json.py cannot be imported as 'json': so is another module"),
    ],
)
def test_files_that_are_no_papers_are_refused(tmp_path, name, content, said):
    (tmp_path / name).write_text(content, encoding="utf-8")
    with pytest.raises(SpecError, match=re.escape(said)):
        papers.entries_of(tmp_path / name)


@pytest.mark.parametrize("command", ["run", "sweep", "show"])
def test_a_file_without_the_name_of_an_entry_is_told_its_names(source, command, monkeypatch):
    monkeypatch.chdir(source)
    result = CliRunner().invoke(app, [command, "doe2027.py"])
    said = "Error: doe2027.py is a file of entries: name one of them, doe2027.py::fig1.\n"
    assert (result.exit_code, result.stderr) == (2, said)


def test_completion_of_a_file_and_of_what_is_in_it(source, monkeypatch):
    monkeypatch.chdir(source)
    assert [word for word, _ in complete_job("doe2027.p")] == ["doe2027.py"]
    assert [word for word, _ in complete_job("doe2027.py::f")] == ["doe2027.py::fig1"]
    assert complete_job("nowhere.py::f") == []


def test_names_of_entries_in_files(source):
    assert papers.find(f"{source / 'doe2027.py'}::fig1").id == "doe2027/fig1"
    with pytest.raises(SpecError, match="has no entry 'fig2': did you mean 'fig1'"):
        papers.find(f"{source / 'doe2027.py'}::fig2")
    with pytest.raises(SpecError, match=r"there is no file nowhere\.py"):
        papers.find("nowhere.py::fig1")
