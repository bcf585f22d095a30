"""The documentation is true: its examples run and print what they say, and its tables are those of the code."""

from __future__ import annotations

import ast
import contextlib
import dataclasses
import importlib.util
import re
import runpy
import shlex
import sys
import tokenize
import tomllib
from pathlib import Path

import jax
import numpy as np
import pytest
import typer
from typer.testing import CliRunner

import afterfit as af
from afterfit._cli import app
from afterfit._diagnose import VERDICTS, DiagnosisSettings
from afterfit._reports.site import file_names
from afterfit._sweeps.knobs import parse_values
from afterfit.papers import entries

ROOT = Path(__file__).parents[1]
DOCS = sorted((ROOT / "docs").glob("*.md"))
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *DOCS]
FAMILIES = (
    af.tasks.Task,
    af.models.Model,
    af.penalties.Penalty,
    af.dynamics.Dynamics,
    af.inits.Init,
    af.quantities.Quantity,
)

# The pages whose examples are run, and the verdicts that their text speaks of.
EXAMPLES = {
    "README.md": {"run": "grokking"},
    "docs/quickstart.md": {
        "run": "grokking",
        "without": "never generalised",
        "twice": "grokking",
        "again": "grokking",
        "lost": "misgrokking",
    },
    "docs/flows.md": {
        "run": "grokking",
        "settled": "grokking",
        "limit": "grokking",
        "near": "grokking",
        "kernel": "never generalised",
        "far": "generalised with the fit",
    },
    "docs/theory.md": {"run": "grokking"},
    "docs/sweeps.md": {"run": "grokking"},
    "docs/your-model.md": {"plain": "generalised with the fit", "run": "grokking", "own": "generalised with the fit"},
    "docs/recipes.md": {"own_class": "grokking", "elastic": "grokking"},
    "docs/bring-your-own.md": {
        "own_data": "grokking",
        "seen": "generalised with the fit",
        "own_model": "grokking",
        "observed": "grokking",
        "continued": "training collapsed",
        "own_penalty": "grokking",
        "own_dynamics": "grokking",
        "own_class": "generalised with the fit",
        "sampled": "grokking",
        "elsewhere": "grokking",
        "lion": "generalised with the fit",
        "projected": "never fitted",
        "own_schedule": "grokking",
    },
}
NEEDED = {"docs/your-model.md": "torch"}  # what a page needs that `make test` does not have


# ---------------------------------------------------------------------------------------------------- examples


@dataclasses.dataclass(frozen=True)
class Block:
    """A fenced block of a page: its language, its first line's number (from 0) and its lines."""

    language: str
    start: int
    lines: tuple[str, ...]
    run: bool


def blocks(page: Path, language: str) -> list[Block]:
    """The fenced blocks of a language; `<!-- not run: … -->` above the fence says that one is not to be run."""
    found, opened, before = [], None, ""
    for number, line in enumerate(page.read_text(encoding="utf-8").splitlines()):
        if opened is None and line.startswith("```"):
            opened = (line.strip("`").strip(), number + 1, [], not before.startswith("<!-- not run: "))
        elif opened is not None and line == "```":
            found.append(Block(opened[0], opened[1], tuple(opened[2]), opened[3]))
            opened = None
        elif opened is not None:
            opened[2].append(line)
        before = line
    assert opened is None, f"{page.name} has a fence that is not closed"
    return [block for block in found if block.language == language]


def source_of(page: Path) -> str:
    """The examples of a page as one module, every line at its number in the page, so that errors point there."""
    lines = [""] * len(page.read_text(encoding="utf-8").splitlines())
    for block in blocks(page, "python"):
        if block.run:
            lines[block.start : block.start + len(block.lines)] = block.lines
    return "\n".join(lines) + "\n"


def promised_prints(source: str) -> list[str]:
    """What the comment beside each `print(…)` says it prints, in the order of the page."""
    comments = {
        token.start[0]: token.string.removeprefix("# ")
        for token in tokenize.generate_tokens(iter(source.splitlines(keepends=True)).__next__)
        if token.type == tokenize.COMMENT
    }
    calls = [node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Call)]
    prints = sorted(node.lineno for node in calls if getattr(node.func, "id", "") == "print")
    missing = [line for line in prints if line not in comments]
    assert not missing, f"print without a comment that says what it prints, on lines {missing}"
    return [comments[line] for line in prints]


_NUMBER = re.compile(r"\d+(?:\.\d+)?(?:e-?\d+)?")


def alike(said: str, printed: str) -> bool:
    """The same words, and the same numbers to 5 %: the last digits are the machine's."""
    if _NUMBER.sub("#", said) != _NUMBER.sub("#", printed):
        return False
    numbers = ([float(number) for number in _NUMBER.findall(text)] for text in (said, printed))
    return bool(np.allclose(*numbers, rtol=0.05))


@contextlib.contextmanager
def nouns_forgotten():
    """Forget the nouns that a page defines: later tests should not meet them."""
    before = [dict(family.members) for family in FAMILIES]
    try:
        yield
    finally:
        for family, members in zip(FAMILIES, before, strict=True):
            family.members.clear()
            family.members.update(members)


@pytest.mark.usefixtures("rules_forgotten")
@pytest.mark.parametrize("name", EXAMPLES)
def test_examples_run_and_print_what_the_page_says(name, tmp_path, monkeypatch, capsys):
    if name in NEEDED:
        pytest.importorskip(NEEDED[name])
    page = ROOT / name
    source = source_of(page)
    promised = promised_prints(source)
    file = tmp_path / f"{page.stem.replace('-', '_').lower()}.py"
    file.write_text(source, encoding="utf-8")
    spec = importlib.util.spec_from_file_location(f"page_{file.stem}", file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, spec.name, module)
    monkeypatch.chdir(tmp_path)
    with nouns_forgotten():
        spec.loader.exec_module(module)

    printed = capsys.readouterr().out.splitlines()
    assert len(printed) == len(promised)
    wrong = [(s, p) for s, p in zip(promised, printed, strict=True) if not alike(s, p)]
    assert not wrong

    runs = {key: value for key, value in vars(module).items() if isinstance(value, af.Run)}
    for key, run in runs.items():
        assert run.status == "finished", key
        for curve in ("train_loss", "test_loss", f"train_{run.metric}", f"test_{run.metric}", "norm_l2"):
            assert np.all(np.isfinite(run.curves[curve])), (key, curve)
    verdicts = {key: run.verdict for key, run in runs.items()}
    verdicts |= {key: value for key, value in vars(module).items() if isinstance(value, af.Verdict)}
    assert {key: verdict.kind for key, verdict in verdicts.items()} == EXAMPLES[name]
    assert not jax.config.jax_enable_x64  # type: ignore[attr-defined]  # the user's JAX stays as it was


def test_examples_of_ones_own_are_short():
    found = blocks(ROOT / "docs/bring-your-own.md", "python")
    assert found
    for block in found:
        assert len(block.lines) < 20, f"the block on line {block.start} has {len(block.lines)} lines"


def test_examples_that_are_not_run_are_python_too():
    skipped = [block for page in PAGES for block in blocks(page, "python") if not block.run]
    assert skipped
    for block in skipped:
        ast.parse("\n".join(block.lines))


def test_examples_import_nothing_private():
    found = [ast.parse("\n".join(block.lines)) for page in PAGES for block in blocks(page, "python")]
    nodes = [node for tree in found for node in ast.walk(tree)]
    imports = [node for node in nodes if isinstance(node, ast.Import | ast.ImportFrom)]
    assert any("afterfit" in ast.unparse(node) for node in imports)
    private = [ast.unparse(node) for node in imports if re.search(r"\bafterfit\S*\._|afterfit.* _", ast.unparse(node))]
    assert not private


def test_experiments_in_toml_are_experiments():
    found = [block for page in PAGES if page.name != "your-paper.md" for block in blocks(page, "toml")]
    assert found
    for block in found:
        data = tomllib.loads("\n".join(block.lines))
        swept = data.pop("sweep", {})
        assert all(len(parse_values(values, name)) > 1 for name, values in swept.get("over", {}).items())
        if data or not swept:
            af.Experiment.from_dict(data)


# ------------------------------------------------------------------------------------------------------ tables


def text_of(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


def table_rows(text: str, heading: str) -> list[list[str]]:
    """The cells of every table row below `## heading`, column heads and rules left out."""
    section = re.split(r"^## ", text, flags=re.MULTILINE)
    (body,) = [part for part in section if part.startswith(f"{heading}\n")]
    lines = [line for line in body.splitlines() if line.startswith("|")]
    heads = {i - 1 for i, line in enumerate(lines) if set(line) <= set("|-: ")}
    kept = [line for i, line in enumerate(lines) if i not in heads and i - 1 not in heads]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in kept]


def test_every_setting_of_the_diagnosis_has_its_default():
    rows = table_rows(text_of("docs/concepts.md"), "Verdicts")
    said = {row[0].strip("`"): float(row[1]) for row in rows if row[0].startswith("`")}
    assert said == dataclasses.asdict(DiagnosisSettings())


@pytest.mark.parametrize("name", ["README.md", "docs/concepts.md"])
def test_every_verdict_is_explained(name):
    rows = table_rows(text_of(name), "Verdicts")
    assert sorted(row[0] for row in rows if not row[0].startswith("`")) == sorted(VERDICTS)


def test_pages_that_are_made_are_up_to_date():
    """`make pages` writes them, of the entries, the ledger and the docstrings."""
    made = runpy.run_path(str(ROOT / "docs/pages.py"))["pages"]()
    stale = [path.name for path, text in made.items() if path.read_text(encoding="utf-8") != text]
    assert not stale, f"run `make pages`: {stale} do not say what the code says"


def test_every_room_and_dependency_is_in_the_architecture():
    project = tomllib.loads(text_of("pyproject.toml"))
    text = text_of("docs/architecture.md")
    contract = project["tool"]["importlinter"]["contracts"][0]
    said = [set(re.findall(r"`(\w+)`", row[0])) for row in table_rows(text, "Rooms")]
    assert said == [set(re.findall(r"\w+", layer)) for layer in contract["layers"]]
    wanted = [*project["project"]["dependencies"], *project["build-system"]["requires"]]
    wanted += [requirement for group in project["dependency-groups"].values() for requirement in group]
    for requirement in wanted:
        package = re.split(r"[^\w-]", requirement)[0]
        assert f"`{package}`" in text, package


def test_the_version_is_the_same_everywhere():
    assert tomllib.loads(text_of("pyproject.toml"))["project"]["version"] == af.__version__
    assert f"\nversion: {af.__version__}\n" in text_of("CITATION.cff")
    assert f"## [{af.__version__}]" in text_of("CHANGELOG.md")


# ------------------------------------------------------------------------------------- commands, links, targets


def shown_commands() -> list[tuple[str, list[str]]]:
    """Every `afterfit …` of the documentation, in shell blocks and in running text, split into words."""
    shown = []
    for page in PAGES:
        lines = [line for block in blocks(page, "sh") for line in block.lines]
        inline = re.findall(r"`(afterfit [^`\n]+)`", page.read_text(encoding="utf-8"))
        for line in [*lines, *inline]:
            words = shlex.split(line, comments=True)
            if words[:1] == ["afterfit"]:
                shown.append((page.name, words[1:]))
    return shown


def help_of(*command: str) -> str:
    """What `--help` says of a command; of a group of commands, of each of them too."""
    result = CliRunner().invoke(app, [*command, "--help"])
    assert result.exit_code == 0, result.output
    inner = getattr(TREE[command[0]], "commands", ()) if len(command) == 1 else ()
    return "\n".join([result.output, *(help_of(*command, name) for name in inner)])


TREE = typer.main.get_command(app).commands  # type: ignore[attr-defined]
COMMANDS = sorted(TREE)


def test_every_command_that_is_shown_exists():
    shown = shown_commands()
    assert {words[0] for _, words in shown} >= set(COMMANDS)
    helps = {command: help_of(command) for command in COMMANDS} | {"": help_of()}
    known = {name for entry in entries().values() for name in (entry.id, entry.paper.name)}
    for page, words in shown:
        command = words[0] if not words[0].startswith("-") else ""
        assert command in helps, (page, words)
        for word in words:
            if re.match(r"--?[a-z]", word):
                assert re.search(rf"(?<![\w-]){word}(?![\w-])", helps[command]), (page, words)
            elif re.fullmatch(r"[a-z]+\d{4}(/\w+)?", word):
                assert page == "your-paper.md" or word in known, (page, words)


@pytest.mark.parametrize("command", COMMANDS)
def test_every_option_is_documented(command):
    section = re.search(rf"^## {command}\n(.*?)(?=^## |\Z)", text_of("docs/command-line.md"), re.M | re.S)
    assert section is not None
    known, said = (set(re.findall(r"(?<![\w-])--[a-z][a-z-]*", text)) for text in (help_of(command), section[1]))
    assert said == known - {"--help"}


def test_every_target_that_is_named_is_in_the_makefile():
    named = {
        target
        for page in PAGES
        for target in re.findall(r"(?:`|^)make (\w+)", page.read_text(encoding="utf-8"), re.MULTILINE)
    }
    assert {"demo", "test", "install", "lint", "docs", "bench"} <= named
    assert named <= set(re.findall(r"^(\w+):", text_of("Makefile"), re.MULTILINE))


def test_every_link_leads_somewhere():
    """Those into the gallery to a page that `docs/hooks.py` makes."""
    made = {"gallery/index.html", *(f"gallery/{name}.html" for name in file_names(entries().values()).values())}
    for page in PAGES:
        for target in re.findall(r"\]\(([^)#\s]+)[^)]*\)", page.read_text(encoding="utf-8")):
            if not target.startswith("https://") and target not in made:
                assert (page.parent / target).is_file(), (page.name, target)


def test_every_page_is_in_the_site():
    config = text_of("mkdocs.yml")
    assert all(f": {page.name}\n" in config for page in DOCS)
    assert "font: false" in config
