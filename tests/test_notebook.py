"""In a notebook: results show themselves, without any setting, and say the same as when they are printed."""

from __future__ import annotations

import base64
import html.parser
import textwrap

import nbformat
import pytest
from nbclient import NotebookClient
from test_plot import make_run

CELLS = {
    "run": """
        import afterfit as af
        experiment = af.Experiment(
            task=af.tasks.SparseRegression(n=20, d=50, sparsity=2),
            model=af.models.DiagonalNet(),
            penalty=af.penalties.L2(1e-2),
            dynamics=af.dynamics.GradientFlow(until=2e3),
            init=af.inits.Constant(1.0),
        )
        run = af.run_experiment(experiment)
        run
    """,
    "verdict": "run.verdict",
    "picture": "run.plot()",
    "limits": "af.theory.limits(run)",
    "clocks": "af.theory.clocks(run)",
    "explanation": "af.theory.explain(run)",
    "sweep": """
        sweep = af.sweep(experiment, over={"penalty.strength": [1e-2, 2e-2]}, store="store").run(progress=False)
        sweep
    """,
    "diagram": 'sweep.phase_diagram("t_gen")',
    "printed": "print(run.verdict, list(af.theory.limits(run))[0].name, sep='\\n')",
    "names": "[repr(x) for x in (run, run.verdict, af.theory.limits(run), af.theory.clocks(run), "
    "af.theory.explain(run), af.forecast(experiment), sweep)]",
}


class Text(html.parser.HTMLParser):
    """The words of a piece of HTML, and its tags, each of which has to be closed."""

    VOID = ("img", "br", "hr")

    def __init__(self, content: str):
        super().__init__()
        self.words, self.tags, self.open = [], [], []
        self.feed(content)
        assert self.open == [], "not closed"

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.words.append(data)

    @property
    def text(self) -> str:
        return " ".join(" ".join(self.words).split())


@pytest.fixture(scope="module")
def shown(tmp_path_factory):
    """What a notebook shows of each cell: its last value, by media type."""
    cells = [nbformat.v4.new_code_cell(textwrap.dedent(code).strip()) for code in CELLS.values()]
    notebook = nbformat.v4.new_notebook(cells=cells)
    place = tmp_path_factory.mktemp("notebook")
    done = NotebookClient(notebook, timeout=300, kernel_name="python3", resources={"metadata": {"path": str(place)}})
    outputs = [cell["outputs"] for cell in done.execute()["cells"]]
    return {name: output[-1] for name, output in zip(CELLS, outputs, strict=True)}


@pytest.mark.parametrize("name", ["run", "verdict", "limits", "clocks", "explanation", "sweep"])
def test_results_are_shown_as_html(shown, name):
    page = Text(shown[name]["data"]["text/html"])
    assert "script" not in page.tags
    verdict, limit = shown["printed"]["text"].splitlines()
    if name in ("run", "verdict", "explanation"):
        assert verdict in page.text
    if name in ("limits", "explanation"):
        assert limit in page.text
    if name == "run":
        assert "img" in page.tags
    if name == "sweep":
        assert "penalty.strength" in page.text


@pytest.mark.parametrize("name", ["picture", "diagram"])
def test_figures_show_without_any_setting(shown, name):
    assert base64.b64decode(shown[name]["data"]["image/png"]).startswith(b"\x89PNG")


def test_a_repr_is_one_short_line(shown):
    for text in eval(shown["names"]["data"]["text/plain"]):  # noqa: S307  (a list of strings that Python wrote)
        assert "\n" not in text
        assert len(text) < 200, text


def test_words_of_a_run_are_escaped():
    page = Text(make_run(message="<script>no</script> & more")._repr_html_())
    assert "<script>no</script> & more" in page.text
    assert "script" not in page.tags
