"""The gallery as a site: what its pages say, and how they are to who reads them in a browser or by ear."""

from __future__ import annotations

import functools
import io
import itertools
import re
import runpy
import shutil
import sys
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest
from PIL import Image
from test_docs import ROOT
from typer.testing import CliRunner

from afterfit import SpecError
from afterfit._cli import app
from afterfit._cli import site as command
from afterfit._reports.site import PHENOMENA, Exhibit, file_names, phenomena_of, site
from afterfit.papers import SCALES, Entry, Paper, entries, entries_of
from afterfit.papers._ledger import Ledger

html5lib = pytest.importorskip("html5lib")

LEDGER = ROOT / "docs/ledger.jsonl"
OWN = '''
"""A paper whose words are all that HTML might stumble over."""

import afterfit as af
from afterfit.papers import Entry, Finding, Paper, claim, control

PAPER = Paper("odd2027", "O'Dd & <Sons> 2027, \\"Quotes\\"")


class Fig(Entry):
    paper, name = PAPER, "a fig/1 <b>"
    title = "1 < 2 & <script>alert(1)</script>"
    where = "§<1>"
    about = "`x < y` and 'so on' &amp; on."

    def runs(self, scale):
        model, start = af.models.DiagonalNet(), af.inits.Constant(1.0)
        task = af.tasks.SparseRegression(n=3 if scale == "quick" else 4, d=5, sparsity=1)
        return {"<run>": af.Experiment(task, model, dynamics=af.dynamics.GradientDescent(lr=0.01, steps=4), init=start)}

    def picture(self, runs):
        figure = af.plot.Figure(figsize=(3, 2))
        figure.subplots().plot([len(runs), NUMBER])
        return figure

    @claim("a < b & \\"c\\"", says="<i>so</i>", fails="because <b>")
    def fails(self, runs):
        return Finding("3 > 2 & <u>", False)

NUMBER = 1
'''


@pytest.fixture(scope="module")
def files() -> dict[str, bytes]:
    """The gallery of the documentation."""
    return runpy.run_path(str(ROOT / "docs/hooks.py"))["gallery"]()


@pytest.fixture
def own(tmp_path, monkeypatch):
    """A paper of one's own in the directory that commands are given in; forgotten afterwards."""
    (tmp_path / "odd_paper.py").write_text(OWN, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    yield tmp_path / "odd_paper.py"
    sys.modules.pop("odd_paper", None)


@functools.cache
def parsed(page: bytes):
    """A page as a strict parser reads it: one that is not valid is refused."""
    return html5lib.HTMLParser(strict=True, namespaceHTMLElements=False).parse(page.decode())


def text_of(page: bytes) -> str:
    body = parsed(page).find("body")
    return plain("".join(body.itertext()))


def plain(words: str) -> str:
    """Words as they are seen: without marks of code, and however lines are broken."""
    return " ".join(words.replace("`", "").split())


def gallery(*arguments: str, here: Path):
    places = ("--out", str(here / "site"), "--pictures", str(here / "pictures"), "--ledger", str(here / "ledger.jsonl"))
    return CliRunner().invoke(app, ["gallery", *places, "--quiet", *arguments])


# ---------------------------------------------------------------------------------------------- what pages say


def test_every_entry_has_a_page_with_all_that_it_claims_and_what_was_measured(files):
    kept = Ledger(LEDGER).kept
    names = file_names(entries().values())
    for id, entry in entries().items():
        page = text_of(files[f"{names[id]}.html"])
        wanted = [entry.title, entry.where, entry.paper.title, *entry.about.split("\n\n"), *entry.notes.split("\n\n")]
        for claim in entry.claims:
            wanted += [claim.words, claim.changed or ""]
            wanted += [control.words for control in (*claim.controls, *claim.passing)]
            if right := claim.correction:
                wanted += [right.words, right.why, right.touches, right.where or ""]
            for scale in SCALES:
                wanted += [claim.says_at(scale), claim.fails_at(scale) or ""]
                if row := kept.get((id, claim.words, scale)):
                    wanted += [row.row.measured]
                    wanted += [row.row.control or ""] if claim.correction is None else []
        missing = [words for words in wanted if plain(words) not in page]
        assert not missing, (id, missing)
        assert f"afterfit run {id} --scale quick" in page
        assert f"papers.find('{id}')" in page


def test_settings_are_shown_at_both_scales(files):
    table = parsed(files["woodworth2020-fig2.html"]).findall(".//table")[0]
    rows = {row[0].text: [cell.text for cell in row[1:]] for row in table.find("tbody")}
    both = [entries()["woodworth2020/fig2"].experiments(scale) for scale in SCALES]
    assert rows["task.n"] == [str(next(iter(found.values())).task.n) for found in both] == ["6", "40"]
    assert [cell.text for cell in table.find("thead/tr")] == ["setting", "quick scale", "paper scale"]


def test_every_entry_is_in_the_index_by_paper_and_by_phenomenon(files):
    page = parsed(files["index.html"])
    links = [link.get("href") for link in page.iter("a")]
    for id, name in file_names(entries().values()).items():
        assert links.count(f"{name}.html") >= 2, id
    kinds = {id: phenomena_of(entry) for id, entry in entries().items()}
    assert all(set(found) <= set(PHENOMENA) for found in kinds.values()), "a new entry says what it is about"
    assert "Misgrokking" in kinds["lyu2023/fig1b"]
    assert "Grokking" not in kinds["lyu2023/fig1b"]
    assert "Grokking" in kinds["lyu2023/fig1a"]


def test_an_entry_may_say_itself_what_it_is_about(own, tmp_path):
    (entry,) = entries_of(own).values()
    assert phenomena_of(entry) == ["Of other kinds"]
    own_words = type(entry)
    own_words.phenomena = ("Misgrokking", "Patience & <Co>")  # type: ignore[attr-defined]
    page = parsed(site([Exhibit(entry, entry.id)], Ledger(tmp_path / "none.jsonl"))["index.html"])
    assert [heading.text for heading in page.iter("h3")][1:] == ["Misgrokking", "Patience & <Co>"]


def test_phenomena_that_are_one_word_are_refused():
    with pytest.raises(SpecError, match="phenomena = 'Grokking': a tuple of words"):
        type(
            "Odd",
            (Entry,),
            {
                "paper": Paper("o", "O"),
                "name": "o",
                **dict.fromkeys(["title", "where", "about"], ""),
                "phenomena": "Grokking",
            },
        )


def test_an_entry_that_cannot_say_what_it_runs_costs_no_page(own, tmp_path, monkeypatch):
    (entry,) = entries_of(own).values()
    monkeypatch.setattr(type(entry), "runs", lambda self, scale: {}[1 / 0])
    result = gallery("--only", "odd_paper.py", "--no-draw", here=tmp_path)
    assert result.exit_code == 0
    (page,) = (path for path in (tmp_path / "site").glob("odd2027*.html"))
    assert "What is run could not be told: ZeroDivisionError: division by zero" in page.read_text(encoding="utf-8")
    assert "there is no ledger" in result.stderr


def test_commands_are_quoted_for_a_shell(own, tmp_path):
    (entry,) = entries_of(own).values()
    (page,) = (c for n, c in site([Exhibit(entry, entry.id)], Ledger(tmp_path / "no")).items() if n.startswith("odd"))
    text = "".join(parsed(page).itertext())
    assert "afterfit verify 'odd2027/a fig/1 <b>' " in text
    assert "afterfit run 'odd2027/a fig/1 <b>' --scale quick" in text


def test_every_link_and_picture_is_there_and_none_is_elsewhere(files):
    pages = {name: parsed(page) for name, page in files.items() if name.endswith(".html")}
    marks = {name: [element.get("id") for element in page.iter() if element.get("id")] for name, page in pages.items()}
    for name, page in pages.items():
        assert len(set(marks[name])) == len(marks[name]), name
        assert not list(page.iter("script"))
        assert not list(page.iter("link"))
        assert "url(" not in files[name].decode()
        assert "@import" not in files[name].decode()
        for element in page.iter():
            for target in filter(None, (element.get("href"), element.get("src"))):
                to = urlsplit(target)
                assert not to.scheme, (name, target)
                assert not to.netloc, (name, target)
                path = unquote(to.path) or name
                assert path in files or path == "../index.html", (name, target)
                assert not to.fragment or to.fragment in marks[path], (name, target)


def test_headings_are_in_order_and_tables_and_pictures_are_told(files):
    for name in (name for name in files if name.endswith(".html")):
        page = parsed(files[name])
        levels = [int(element.tag[1]) for element in page.iter() if re.fullmatch(r"h[1-6]", str(element.tag))]
        assert levels[0] == 1, name
        assert levels.count(1) == 1, name
        assert all(after <= before + 1 for before, after in itertools.pairwise(levels)), name
        assert page.get("lang") == "en"
        assert page.find("body")[0].get("href") == "#main", "one can skip to the content"
        assert all(cell.get("scope") for cell in page.iter("th")), name
        assert all(table.find("caption") is not None for table in page.iter("table")), name
        assert all(picture.get("alt") is not None for picture in page.iter("img")), name


def test_what_was_not_measured_says_so(tmp_path):
    entry = entries()["woodworth2020/fig2"]
    made = site([Exhibit(entry, entry.id)], Ledger(tmp_path / "none.jsonl"))
    page = text_of(made["woodworth2020-fig2.html"])
    assert page.count("not measured") == 2 * (len(entry.claims) + 1)
    assert "holds:" not in page
    assert "7 claims: not measured" in text_of(made["index.html"])


def test_names_of_files_are_told_apart(own):
    (entry,) = entries_of(own).values()
    names = file_names([entry, type("Other", (), {"id": "ODD2027/a fig?1?b>"})()])  # type: ignore[list-item]
    assert list(names.values()) == ["odd2027-a-fig-1-b-", "ODD2027-a-fig-1-b--2"]


# ------------------------------------------------------------------------------------------------- the command


def test_a_paper_of_one_s_own_is_escaped_drawn_and_kept(own, tmp_path, monkeypatch):
    first = gallery("--only", "odd_paper.py", here=tmp_path)
    assert first.exit_code == 0, first.output
    assert first.stdout == f"{tmp_path / 'site/index.html'}\n"
    (picture,) = (tmp_path / "pictures").iterdir()
    drawn = picture.read_bytes()
    said = Image.open(io.BytesIO(drawn)).text  # type: ignore[attr-defined]
    assert (said["id"], said["scale"]) == ("odd2027/a fig/1 <b>", "quick")
    assert not list((tmp_path / "pictures.runs").rglob("curves.parquet"))

    (name,) = {path.name for path in (tmp_path / "site").glob("*.html")} - {"index.html"}
    page = (tmp_path / "site" / name).read_bytes()
    text = text_of(page)
    for words in ("1 < 2 & <script>alert(1)</script>", 'a < b & "c"', "3 > 2 & <u>", "because <b>", "x < y", "<run>"):
        assert (words in text) == (words != "3 > 2 & <u>"), words
    assert b"<script" not in page
    assert "odd_paper.py::a fig/1 <b>" in text
    assert [link.get("href") for link in parsed(page).iter("a")].count(name.replace(".html", ".png")) == 1

    monkeypatch.setattr(command, "_as_png", None)  # a second time nothing is drawn
    assert gallery("--only", "odd_paper.py", here=tmp_path).exit_code == 0
    assert picture.read_bytes() == drawn


def test_what_is_measured_is_on_the_page_and_python_on_it_reproduces_it(own, tmp_path):
    ledger = ("--ledger", str(tmp_path / "ledger.jsonl"))
    assert CliRunner().invoke(app, ["verify", "odd_paper.py", *ledger, "--quiet"]).exit_code == 0
    assert gallery("--only", "odd_paper.py", "--no-draw", here=tmp_path).exit_code == 0
    (page,) = (parsed(path.read_bytes()) for path in (tmp_path / "site").glob("odd*.html"))
    claim = " ".join("".join(page.find(".//article").itertext()).split())
    assert "Quick scale" in claim
    assert "does not hold: 3 > 2 & <u>" in claim
    assert "not measured" in claim, "at paper scale"
    python = "".join(page.findall(".//pre")[1].itertext())
    exec(python, {})  # noqa: S102
    assert (tmp_path / "a-fig-1-b-.png").is_file()


def test_pictures_of_other_code_are_drawn_again_or_said_to_be(own, tmp_path):
    def page() -> str:
        return text_of(next((tmp_path / "site").glob("odd*.html")).read_bytes())

    assert gallery("--only", "odd_paper.py", "--no-draw", here=tmp_path).exit_code == 0
    assert "No picture was drawn for this page" in page()
    assert gallery("--only", "odd_paper.py", here=tmp_path).exit_code == 0
    (picture,) = (tmp_path / "pictures").iterdir()
    with Image.open(picture) as drawn:
        drawn.load()
    drawn.save(picture)  # without what it says of itself
    assert gallery("--only", "odd_paper.py", "--no-draw", here=tmp_path).exit_code == 0
    assert "by other code than is here now" in page()
    assert gallery("--only", "odd_paper.py", here=tmp_path).exit_code == 0
    assert "by other code than is here now" not in page()
    picture.write_bytes(b"\x89PNG cut off")
    damaged = gallery("--only", "odd_paper.py", "--no-draw", here=tmp_path)
    assert "is no picture that can be read" in damaged.stderr
    assert gallery("--only", "odd_paper.py", here=tmp_path).exit_code == 0
    with Image.open(picture) as drawn:
        assert drawn.size == (330, 220)


def test_a_picture_that_cannot_be_drawn_costs_no_page(own, tmp_path, monkeypatch):
    def broken(self, runs, scale):
        raise ValueError("no such curve")

    (entry,) = entries_of(own).values()
    monkeypatch.setattr(type(entry), "draw", broken)
    result = gallery("--only", "odd_paper.py", here=tmp_path)
    assert result.exit_code == 1
    assert "the picture of odd2027/a fig/1 <b> cannot be drawn: ValueError: no such curve" in result.stderr
    assert len(list((tmp_path / "site").glob("*.html"))) == 2


def test_a_command_that_was_stopped_goes_on_with_its_runs(own, tmp_path, monkeypatch):
    def stopped(self, runs, scale):
        raise KeyboardInterrupt

    (entry,) = entries_of(own).values()
    with monkeypatch.context() as patch:
        patch.setattr(type(entry), "draw", stopped)
        assert gallery("--only", "odd_paper.py", here=tmp_path).exit_code == 130
    (kept,) = (tmp_path / "pictures.runs").rglob("curves.parquet")
    written = kept.stat().st_mtime_ns
    drawn = entry.draw

    def draw(self, runs, scale):
        assert kept.stat().st_mtime_ns == written, "they were not computed again"
        return drawn(runs, scale)

    monkeypatch.setattr(type(entry), "draw", draw)
    assert gallery("--only", "odd_paper.py", here=tmp_path).exit_code == 0
    assert not list((tmp_path / "pictures.runs").rglob("curves.parquet"))


def test_files_are_added_to_the_gallery_and_only_what_is_chosen_is_shown(own):
    added = command._jobs(["odd_paper.py"], [])
    assert {"odd_paper.py::a fig/1 <b>", "lyu2023/fig1a"} <= set(added)
    assert set(command._jobs([], ["woodworth2020/fig2", "odd_paper.py"])) == {
        "woodworth2020/fig2",
        "odd_paper.py::a fig/1 <b>",
    }
    with pytest.raises(SpecError, match=r"lyu2023 is no Python file with entries: .* --only lyu2023"):
        command._jobs(["lyu2023"], [])


def test_only_a_directory_of_its_own_is_written_to(own, tmp_path):
    (tmp_path / "site").mkdir()
    (tmp_path / "site/thesis.html").write_text("mine")
    refused = gallery("--only", "odd_paper.py", "--no-draw", here=tmp_path)
    assert refused.exit_code == 2
    assert "has files in it that are not afterfit's" in refused.stderr
    (tmp_path / "site/thesis.html").unlink()
    assert gallery("--only", "odd_paper.py", "--no-draw", here=tmp_path).exit_code == 0
    (tmp_path / "site/mine.html").write_text("mine")
    assert gallery("--only", "woodworth2020/fig2", "--no-draw", here=tmp_path).exit_code == 0
    left = {path.name for path in (tmp_path / "site").glob("*.html")}
    assert left == {"index.html", "mine.html", "woodworth2020-fig2.html"}


# --------------------------------------------------------------------------------------------------- a browser


# With all that is folded away opened: how wide the page is, and on what it is written.
LOOK = """() => {
  document.querySelectorAll("details").forEach(one => one.open = true);
  return [document.documentElement.scrollWidth, getComputedStyle(document.body).backgroundColor];
}"""


@pytest.fixture(scope="module")
def browser():
    """Debian's chromium, without a window."""
    driver = pytest.importorskip("playwright.sync_api")
    program = shutil.which("chromium")
    if program is None:
        pytest.skip("no chromium here: apt-get install chromium")
    with driver.sync_playwright() as play:
        opened = play.chromium.launch(executable_path=program, args=["--no-sandbox"])
        yield opened
        opened.close()


@pytest.fixture(scope="module")
def written(files, tmp_path_factory) -> Path:
    """The gallery in a directory."""
    place = tmp_path_factory.mktemp("site")
    for name, content in files.items():
        (place / name).write_bytes(content)
    return place


@pytest.mark.parametrize(
    ("scheme", "width", "some"), [("light", 375, 1), ("dark", 375, 9), ("light", 1280, 9), ("dark", 1280, 9)]
)
def test_pages_open_without_complaint_or_sideways_scrolling(browser, written, scheme, width, some):
    """Every page where there is least room, the index and some others in other lights and widths."""
    names = ["index.html", *sorted(path.name for path in written.glob("*-*.html"))[::some]]
    context = browser.new_context(color_scheme=scheme, viewport={"width": width, "height": 800})
    page, said, asked = context.new_page(), [], []
    page.on("console", lambda message: said.append(message.text))
    page.on("pageerror", lambda error: said.append(str(error)))
    page.on("request", lambda request: asked.append(request.url))
    page.on("requestfailed", lambda request: said.append(f"failed: {request.url}"))
    for name in names:
        page.goto((written / name).as_uri())
        wide, back = page.evaluate(LOOK)
        assert wide <= width, name
        assert (sum(map(int, re.findall(r"\d+", back))) > 600) == (scheme == "light"), name
    assert not said
    assert all(url.startswith(written.as_uri()) for url in asked)
    context.close()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_nothing_is_found_that_keeps_people_out(browser, written, scheme):
    """By axe-core: all that it looks for in the light, and in the dark the colours."""
    axe = pytest.importorskip("axe_playwright_python.sync_playwright").Axe()
    context = browser.new_context(color_scheme=scheme, viewport={"width": 800, "height": 800})
    page = context.new_page()
    for name in ("index", "woodworth2020-fig2"):  # which has a picture, errata and more
        page.goto((written / f"{name}.html").as_uri())
        found = axe.run(page, options={} if scheme == "light" else {"runOnly": ["color-contrast"]})
        assert found.violations_count == 0, found.generate_report()
    context.close()


def test_everything_is_reached_by_keyboard(browser, written):
    page = browser.new_page()
    page.goto((written / "index.html").as_uri())
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.textContent") == "Skip to the content"
    assert page.evaluate("document.activeElement.getBoundingClientRect().left") >= 0, "it is seen when it has the focus"
    links = page.eval_on_selector_all("a", "all => all.map(one => one.getAttribute('href'))")[1:41]
    assert any(re.fullmatch(r"[\w.]+-.*\.html", link) for link in links), "past what is on this page to the entries"
    reached: list[str] = []
    while len(reached) < len(links):
        page.keyboard.press("Tab")
        reached += page.evaluate("[document.activeElement.getAttribute('href')].filter(one => one)")
    assert reached == links
    page.focus("ul.cards a")
    page.keyboard.press("Tab")
    assert page.evaluate("parseFloat(getComputedStyle(document.activeElement).outlineWidth)") >= 2
    page.keyboard.press("Enter")
    page.wait_for_url("**/*-*.html")
    assert page.locator("h1").count() == 1
    page.close()
