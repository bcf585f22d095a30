"""The gallery as a site: an index by paper and by phenomenon, and one page an entry. No scripts, no network."""

from __future__ import annotations

import dataclasses
import itertools
import re
import shlex
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from afterfit._base.errors import error_in_words
from afterfit._base.html import Raw, escape
from afterfit._reports.page import document, value_in_words
from afterfit._training.experiment import flatten

if TYPE_CHECKING:
    from afterfit._training.experiment import Experiment
    from afterfit.papers._entry import Claim, Correction, Entry, Paper
    from afterfit.papers._ledger import Kept, Ledger

__all__ = ["PHENOMENA", "Exhibit", "Picture", "file_names", "phenomena_of", "site"]

_SCALES = {"quick": "Quick scale", "paper": "Paper scale"}
_FOLDED = 12  # more runs than that are behind a line that opens them
_LONGEST = 48  # characters of a list in a table of settings

# What a reader comes for, and the words by which an entry is told to be about it, unless it declares so itself: of the
# first three in its title or a claim, of the others in its title.
PHENOMENA: dict[str, tuple[str, str]] = {
    "Grokking": ("The test error falls long after the training error.", r"(?<!mis)grok(?!king without)"),
    "Misgrokking": ("The test error rises long after the fit.", r"misgrok"),
    "Grokking without understanding": (
        "The test error falls late, and not far enough.",
        r"without understanding",
    ),
    "Where training ends": (
        "Which of the solutions that fit the optimiser goes to: least norms, largest margins, minimisers of Q.",
        r"minimis|argmin|least norm|largest .* margin$|spline|min-L1|limit\b|solution|L2 .* L1|recovers the|fills"
        r"|to least squares",
    ),
    "Kernel and rich regimes": (
        "A large start stays near its tangent model, a small one does not.",
        r"kernel|\brich\b|tangent|(?:small|large)r? (?:starts|scales)|larger its start",
    ),
    "Clocks and laws": (
        "When things happen, and how that goes with the step size, the penalty and the start.",
        r"log α|clock|slow|\blate|earlier|(?<!implicit )steps|of order 1|exponential|fixed interval|decayed start"
        r"|delay|sooner",
    ),
    "Sparse and low-rank recovery": (
        "A sparse vector or a matrix of low rank, found from fewer numbers than it has.",
        r"spars|low.rank|the rank|recover|completion|completed|singular|sensing|thresholding",
    ),
    "Tools and inequalities": (
        "Bounds, constants, invariants and methods that say what a run can do.",
        r"coherence|isometry|null space|bound|inequalit|Hessian|stay so|fewer measurements|of order log|implicit steps",
    ),
}
_IN_CLAIMS = ("Grokking", "Misgrokking", "Grokking without understanding")
_OTHER = "Of other kinds"


@dataclasses.dataclass(frozen=True)
class Picture:
    """A picture of an entry as PNG, of which `scale` its runs were, and what there is to say of it, if anything."""

    png: bytes
    scale: str
    size: tuple[int, int]
    remark: str = ""


@dataclasses.dataclass(frozen=True)
class Exhibit:
    """An entry as the site shows it: with what it is called on a command line, and its picture, if there is one."""

    entry: Entry
    job: str
    picture: Picture | None = None


def site(exhibits: Sequence[Exhibit], ledger: Ledger, home: str = "") -> dict[str, bytes]:
    """The files of the site by name; `home` is where a link at the top of its pages leads, if anywhere."""
    names = file_names(exhibit.entry for exhibit in exhibits)
    files = {"index.html": _index(exhibits, ledger, names, home).encode()}
    for exhibit in exhibits:
        name = names[exhibit.entry.id]
        files[f"{name}.html"] = _page(exhibit, ledger, name, home).encode()
        if exhibit.picture:
            files[f"{name}.png"] = exhibit.picture.png
    return files


def file_names(entries: Iterable[Entry]) -> dict[str, str]:
    """By id, names for files that every file system takes, each another even where letters have no case."""
    names: dict[str, str] = {}
    taken = {"index"}
    for entry in entries:
        plain = re.sub(r"[^\w.-]+", "-", entry.id)
        numbered = (plain, *(f"{plain}-{k}" for k in range(2, len(taken) + 2)))
        name = next(name for name in numbered if name.lower() not in taken)
        taken.add(name.lower())
        names[entry.id] = name
    return names


def phenomena_of(entry: Entry) -> list[str]:
    """What an entry declares to be about or, if nothing, what its title and its claims speak of."""
    if entry.phenomena:
        return list(entry.phenomena)
    claims = "\n".join([entry.title, *(claim.words for claim in entry.claims)])
    told = {name: claims if name in _IN_CLAIMS else entry.title for name in PHENOMENA}
    return [name for name, words in told.items() if re.search(PHENOMENA[name][1], words, re.I)] or [_OTHER]


# ---------------------------------------------------------------------------------------------------- the index


def _index(exhibits: Sequence[Exhibit], ledger: Ledger, names: Mapping[str, str], home: str) -> str:
    papers: dict[Paper, list[Exhibit]] = {}
    phenomena: dict[str, list[Exhibit]] = {name: [] for name in PHENOMENA}
    for exhibit in exhibits:
        papers.setdefault(exhibit.entry.paper, []).append(exhibit)
        for name in phenomena_of(exhibit.entry):
            phenomena.setdefault(name, []).append(exhibit)
    phenomena = {name: found for name, found in phenomena.items() if found}
    marks = {paper: f"paper-{_mark(paper.name)}" for paper in papers}
    ways = {name: f"phenomenon-{_mark(name)}" for name in phenomena}
    claims = sum(len(exhibit.entry.claims) for exhibit in exhibits)
    body = [
        "<h1>Gallery</h1>",
        f"<p>{_count(len(exhibits), 'figure or theorem', 'figures and theorems')} of "
        f"{_count(len(papers), 'paper', 'papers')}, with {_count(claims, 'claim', 'claims')} that check themselves. "
        "Each check is also put to a control that it has to reject. What does not hold says so, with its number; what "
        "is wrong as printed is an erratum, and its correction is checked too.</p>",
        _totals(exhibits, ledger),
        '<nav class="ways" aria-label="On this page">',
        '<p><a href="#papers">By paper</a></p>',
        _links((f"#{marks[paper]}", paper.title, len(group)) for paper, group in papers.items()),
        '<p><a href="#phenomena">By phenomenon</a></p>',
        _links((f"#{ways[name]}", name, len(group)) for name, group in phenomena.items()),
        "</nav>",
        '<section aria-labelledby="papers"><h2 id="papers">By paper</h2>',
    ]
    for paper, group in papers.items():
        body += [f'<h3 id="{marks[paper]}">{escape(paper.title)}</h3>', '<ul class="cards">']
        body += [_card(exhibit, ledger, names[exhibit.entry.id]) for exhibit in group]
        body += ["</ul>"]
    body += ["</section>", '<section aria-labelledby="phenomena"><h2 id="phenomena">By phenomenon</h2>']
    for name, group in phenomena.items():
        about = PHENOMENA[name][0] if name in PHENOMENA else ""
        body += [f'<h3 id="{ways[name]}">{escape(name)}</h3>', f"<p>{escape(about)}</p>" if about else "", "<ul>"]
        for exhibit in group:
            entry = exhibit.entry
            link = f'<a href="{_to(names[entry.id])}">{escape(entry.title)}</a>'
            body += [f'<li>{link} <span class="id">{escape(entry.id)}</span></li>']
        body += ["</ul>"]
    body += ["</section>"]
    return document("Gallery · afterfit", "\n".join(filter(None, body)), _header(home, index=True), _STYLE)


def _card(exhibit: Exhibit, ledger: Ledger, name: str) -> str:
    entry, picture = exhibit.entry, exhibit.picture
    shown = (
        f'<img src="{quote(name)}.png" alt="" width="{picture.size[0]}" height="{picture.size[1]}" loading="lazy">'
        if picture
        else '<span class="none" aria-hidden="true">no picture</span>'
    )
    return (
        f'<li><a href="{_to(name)}"><span class="frame">{shown}</span><span class="title">{escape(entry.title)}</span>'
        f'</a><span class="id">{escape(entry.id)}, {escape(entry.where)}</span>'
        f'<span class="said">{escape(_in_short(entry, ledger))}</span></li>'
    )


def _in_short(entry: Entry, ledger: Ledger) -> str:
    """How the claims of an entry came out, at paper scale if they were measured there."""
    for scale in reversed(_SCALES):
        rows = [kept.row for claim in entry.claims if (kept := _kept(ledger, entry, claim, scale))]
        if rows:
            count = Counter(_status(row)[0] for row in rows)
            count["not measured"] = len(entry.claims) - len(rows)
            said = ", ".join(f"{number} {_plural(word, number)}" for word, number in count.items() if number)
            return f"{_count(len(entry.claims), 'claim', 'claims')} at {scale} scale: {said}"
    return f"{_count(len(entry.claims), 'claim', 'claims')}: not measured"


def _totals(exhibits: Sequence[Exhibit], ledger: Ledger) -> str:
    """How many claims came out how, at both scales."""
    words = ("holds", "erratum", "does not hold", "not as recorded", "not measured")
    counts = {scale: Counter() for scale in _SCALES}
    for exhibit, scale in itertools.product(exhibits, _SCALES):
        for claim in exhibit.entry.claims:
            kept = _kept(ledger, exhibit.entry, claim, scale)
            counts[scale][_status(kept.row)[0] if kept else "not measured"] += 1
    words = tuple(word for word in words if any(count[word] for count in counts.values()))
    head = ("claims", *(_plural(word, 2) for word in words))
    rows = [(_SCALES[scale].lower(), *(count[word] for word in words)) for scale, count in counts.items()]
    return _table(head, rows, "How the claims came out", numbers=True)


# -------------------------------------------------------------------------------------------------- one entry


def _page(exhibit: Exhibit, ledger: Ledger, name: str, home: str) -> str:
    entry = exhibit.entry
    try:
        setting = list(_setting({scale: entry.experiments(scale) for scale in _SCALES}))
    except Exception as error:  # of somebody else's entry, or images that are not here: it costs no page
        setting = [f"<p>What is run could not be told: {escape(error_in_words(error))}</p>"]
    kinds = ", ".join(
        f'<a href="index.html#phenomenon-{_mark(kind)}">{escape(kind)}</a>' for kind in phenomena_of(entry)
    )
    errata = [claim for claim in entry.claims if claim.correction]
    sections = {
        "What it shows": [*_prose(entry.about), _measured_when(entry, ledger)],
        "Claims": [_claim(entry, claim, ledger, k) for k, claim in enumerate(entry.claims, start=1)],
        "Errata": [_erratum(entry, claim, entry.claims.index(claim) + 1) for claim in errata],
        "Notes": _prose(entry.notes),
        "Setting": setting,
        "How to reproduce": list(_reproduce(exhibit)),
    }
    sections = {heading: parts for heading, parts in sections.items() if parts}
    body = [
        f"<h1>{escape(entry.title)}</h1>",
        f'<p class="where"><span class="id">{escape(entry.id)}</span> · {escape(entry.paper.title)}, '
        f"{escape(entry.where)} · {kinds}</p>",
        _figure(exhibit, name),
        '<nav aria-label="On this page"><ul class="inline">',
        *(f'<li><a href="#{_mark(heading)}">{heading}</a></li>' for heading in sections),
        "</ul></nav>",
    ]
    for heading, parts in sections.items():
        mark = _mark(heading)
        body += [f'<section aria-labelledby="{mark}"><h2 id="{mark}">{heading}</h2>', *parts, "</section>"]
    return document(f"{entry.id}: {entry.title}", "\n".join(filter(None, body)), _header(home), _STYLE)


def _figure(exhibit: Exhibit, name: str) -> str:
    entry, picture = exhibit.entry, exhibit.picture
    if picture is None:
        command = f"afterfit run {shlex.quote(exhibit.job)} --scale quick"
        return f'<p class="none">No picture was drawn for this page: <code>{escape(command)}</code> does.</p>'
    width, height = picture.size
    alt = f"Plot: {entry.title}. What is to be seen in it is said by the claims below, with numbers."
    text = "" if picture.scale == "paper" else " The text is about the setting at paper scale."
    caption = f"Drawn from the runs at {picture.scale} scale{picture.remark}.{text}"
    return (
        f'<figure><div class="scroll" role="group" aria-label="Picture" tabindex="0">'
        f'<a href="{quote(name)}.png"><img src="{quote(name)}.png" alt="{escape(alt)}" width="{width}" '
        f'height="{height}"></a></div><figcaption>{escape(caption)}</figcaption></figure>'
    )


def _measured_when(entry: Entry, ledger: Ledger) -> str:
    """When the claims were measured and with what, and whether by what is here now."""
    sentences = []
    for scale, words in _SCALES.items():
        kept = {claim.words: k for claim in entry.claims if (k := _kept(ledger, entry, claim, scale))}
        if not kept:
            sentences.append(f"{words}: not measured.")
            continue
        days = sorted({k.date for k in kept.values()})
        versions = {f"afterfit {k.versions.get('afterfit')}, JAX {k.versions.get('jax')}" for k in kept.values()}
        old = sum(ledger.find(entry, claim, scale) is None for claim in entry.claims if claim.words in kept)
        day = days[0] if len(days) == 1 else f"{days[0]} to {days[-1]}"
        by = f"; {old if old < len(kept) else 'all'} by other code or versions than are here now" if old else ""
        seconds = sum(k.row.seconds for k in kept.values())
        sentences.append(
            f"{words}: {len(kept)} of {_count(len(entry.claims), 'claim', 'claims')} measured on {day} with "
            f"{' or '.join(sorted(versions))} in {_duration(seconds)}{by}."
        )
    return f'<p class="when">{escape(" ".join(sentences))}</p>'


def _claim(entry: Entry, claim: Claim, ledger: Ledger, number: int) -> str:
    parts = [
        f'<article class="claim" aria-labelledby="claim-{number}">',
        f'<h3 id="claim-{number}">{_words(claim.words)}</h3>',
    ]
    says = {scale: claim.says_at(scale) for scale in _SCALES}
    told = [("The paper says", _by_scale(says))]
    for scale, words in _SCALES.items():
        kept = _kept(ledger, entry, claim, scale)
        if kept is None:
            told.append((words, Raw('<span class="status">not measured</span>')))
            continue
        status, kind = _status(kept.row)
        mark = f'<span class="status {kind}">{status}:</span> '
        seen = kept.row.control
        folded = ""
        if seen and claim.correction is None:
            how = "rejected" if claim.holds_at(scale) else "accepted"
            folded = f"<details><summary>What its check {how}, measured</summary><p>{_words(seen)}</p></details>"
        told.append((words, Raw(f"{mark}{_words(kept.row.measured)}{folded}")))
    if claim.controls:
        told.append(("Its check rejects", Raw("; ".join(_words(control.words) for control in claim.controls) + ".")))
    if claim.passing:
        told.append(("Its check accepts", Raw("; ".join(_words(control.words) for control in claim.passing) + ".")))
    if claim.fails is not None:
        told.append(("Why it does not hold", _by_scale({s: claim.fails_at(s) for s in _SCALES}, " only")))
    if claim.changed:
        told.append(("Changed after numbers were seen", _words(claim.changed)))
    if claim.correction:
        told.append(("Erratum", Raw(f'<a href="#erratum-{number}">{_words(claim.correction.words)}</a>')))
    return "\n".join([*parts, _said(told), "</article>"])


def _by_scale(said: Mapping[str, str | None], only: str = "") -> Raw:
    """What is said at both scales: once, if it is the same."""
    known = {scale: text for scale, text in said.items() if text is not None}
    if len(known) == len(said) and len(set(known.values())) == 1:
        return _words(next(iter(known.values())))
    return Raw(
        "<br>".join(
            f"At {scale} scale{only if len(known) == 1 else ''}: {_words(text)}" for scale, text in known.items()
        )
    )


def _erratum(entry: Entry, claim: Claim, number: int) -> str:
    right: Correction | None = claim.correction
    assert right is not None
    told = [
        ("As printed", Raw(f'<a href="#claim-{number}">{_words(claim.words)}</a> ({_words(claim.says_at("paper"))})')),
        ("As it should be", _words(right.words)),
        ("Why", _words(right.why)),
        ("Is a conclusion touched?", _words(right.touches)),
    ]
    mark = f"erratum-{number}"
    heading = f'<h3 id="{mark}">{escape(right.where or entry.where)}</h3>'
    return f'<article class="claim" aria-labelledby="{mark}">{heading}{_said(told)}</article>'


def _setting(experiments: Mapping[str, Mapping[str, Experiment]]) -> Iterator[str]:
    """The headline's settings at both scales side by side, and in what the other runs differ from it."""
    flat = {
        scale: {name: _settings(experiment) for name, experiment in found.items()}
        for scale, found in experiments.items()
    }
    heads = {scale: next(iter(found.items())) for scale, found in flat.items()}
    runs = "” and “".join(dict.fromkeys(name for name, _ in heads.values()))
    settings = dict.fromkeys(setting for _, own in heads.values() for setting in own)
    rows = [(setting, *(_value(own.get(setting)) for _, own in heads.values())) for setting in settings]
    yield _table(
        ("setting", *(words.lower() for words in _SCALES.values())),
        [row for row in rows if any(row[1:])],
        f"The run “{runs}”, by the names that --set takes, to six digits",
    )
    for scale, found in flat.items():
        _, own = heads[scale]
        others = dict(list(found.items())[1:])
        if not others:
            continue
        differing = [
            s
            for s in dict.fromkeys(s for o in (own, *others.values()) for s in o)
            if any(o.get(s) != own.get(s) for o in others.values())
        ]
        rows = [(name, *(_value(other.get(setting)) for setting in differing)) for name, other in found.items()]
        caption = f"All {len(found)} runs at {scale} scale, by what differs between them"
        table = _table(("run", *differing), rows, caption)
        yield f"<details><summary>{escape(caption)}</summary>{table}</details>" if len(rows) > _FOLDED else table


def _settings(experiment: Experiment) -> dict[str, Any]:
    """What can be set of an experiment, without what tells versions of code apart."""
    flat = flatten(experiment.to_dict())
    return {name: value for name, value in flat.items() if name.rpartition(".")[2] not in ("meaning", "code")}


def _value(value: Any) -> str:
    """A setting's value; of a long list, its first numbers and how many there are."""
    if isinstance(value, list) and len(value_in_words(value)) > _LONGEST:
        first = ", ".join(f"{one:.3g}" if isinstance(one, float) else _value(one) for one in value[:3])
        return f"[{first}, …] ({len(value)} values)" if len(first) <= _LONGEST else f"{len(value)} values"
    return f"{value:.6g}" if isinstance(value, float) else value_in_words(value)


def _reproduce(exhibit: Exhibit) -> Iterator[str]:
    job, quoted, name = exhibit.job, shlex.quote(exhibit.job), re.sub(r"\W+", "-", exhibit.entry.name)
    commands = (
        f"afterfit run {quoted} --scale quick     # verdicts, picture, report; without --scale quick at paper scale",
        f"afterfit verify {quoted}                # claims and controls; --scale paper at the paper's",
    )
    python = (
        "from afterfit import papers\n\n"
        f"entry = papers.find({job!r})\n"
        'runs = entry.run("quick")\n'
        f'entry.draw(runs, "quick").savefig("{name}.png")\n'
        'for check in entry.verify_each("quick"):\n'
        "    print(check())\n"
    )
    yield f"<p>On the command line:</p>{_code(chr(10).join(commands), 'commands')}"
    yield f"<p>In Python:</p>{_code(python, 'Python')}"


# ----------------------------------------------------------------------------------------------------- pieces


def _kept(ledger: Ledger, entry: Entry, claim: Claim, scale: str) -> Kept | None:
    return ledger.kept.get((entry.id, claim.words, scale))


def _status(row: Any) -> tuple[str, str]:
    """How a row came out, for a reader, and the class of its colour."""
    said = {"holds": ("holds", "good"), "erratum": ("erratum", "new"), "fails": ("does not hold", "bad")}
    return said.get(row.status, ("not as recorded", "bad"))


def _plural(word: str, number: int) -> str:
    return (
        word if number == 1 else {"holds": "hold", "erratum": "errata", "does not hold": "do not hold"}.get(word, word)
    )


def _count(number: int, one: str, several: str) -> str:
    return f"{number} {one if number == 1 else several}"


def _duration(seconds: float) -> str:
    return f"{seconds:.1f} s" if seconds < 60 else f"{seconds / 60:.1f} min"


def _to(name: str) -> str:
    return f"{quote(name)}.html"


def _mark(words: str) -> str:
    return re.sub(r"[^\w.-]+", "-", words.lower())


def _header(home: str, index: bool = False) -> str:
    links = [f'<a href="{escape(home)}">Documentation</a>'] if home else []
    links += ['<a href="index.html" aria-current="page">Gallery</a>' if index else '<a href="index.html">Gallery</a>']
    return f'<header><nav aria-label="Site">{" ".join(links)}</nav></header>'


def _links(found: Iterable[tuple[str, str, int]]) -> str:
    return (
        "<ul>"
        + "".join(f'<li><a href="{to}">{escape(words)}</a> ({count})</li>' for to, words, count in found)
        + "</ul>"
    )


def _said(told: Iterable[tuple[str, Raw]]) -> str:
    return "<dl>" + "".join(f"<dt>{escape(term)}</dt><dd>{said}</dd>" for term, said in told) + "</dl>"


def _words(text: str) -> Raw:
    """A sentence as HTML: what stands between backticks is code."""
    return Raw(re.sub(r"`([^`]+)`", r"<code>\1</code>", escape(text)))


def _prose(text: str) -> list[str]:
    return [f"<p>{_words(part)}</p>" for part in text.split("\n\n") if part.strip()]


def _code(text: str, what: str) -> str:
    return f'<pre tabindex="0" role="group" aria-label="{what}"><code>{escape(text)}</code></pre>'


def _table(head: Sequence[object], rows: Iterable[Sequence[object]], caption: str, numbers: bool = False) -> str:
    """A table that scrolls by itself, also by keyboard, whose first column heads its rows."""
    top = "".join(f'<th scope="col">{escape(cell)}</th>' for cell in head)
    lines = "\n".join(
        f'<tr><th scope="row">{escape(row[0])}</th>' + "".join(f"<td>{escape(cell)}</td>" for cell in row[1:]) + "</tr>"
        for row in rows
    )
    kind = ' class="numbers"' if numbers else ""
    return (
        f'<div class="scroll" role="group" aria-label="{escape(caption)}" tabindex="0"><table{kind}>'
        f"<caption>{escape(caption)}</caption><thead><tr>{top}</tr></thead><tbody>\n{lines}\n</tbody></table></div>"
    )


_STYLE = """
:root { --back: #fff; --text: #1c1e21; --faint: #57606a; --link: #0b57d0; --new: #7a4a00; }
@media (prefers-color-scheme: dark) {
  :root { --back: #16181c; --text: #e6e6e6; --faint: #a3abb5; --link: #8ab4f8; --new: #e3b341; }
}
body { background: var(--back); color: var(--text); }
main { max-width: 64rem; }
header { border-bottom: 1px solid var(--line); }
header nav { max-width: 64rem; margin: 0 auto; padding: .7rem 1rem; display: flex; gap: 1.5rem; }
a { color: var(--link); }
:is(a, summary, [tabindex]):focus-visible { outline: 3px solid var(--link); outline-offset: 2px; }
.id, .where, .when, .said, figcaption, caption { color: var(--faint); font-size: .9rem; }
.id { overflow-wrap: anywhere; }
h2 { padding-bottom: .2rem; } h3 { line-height: 1.35; margin: 1.6rem 0 .6rem; }
h2, h3 { scroll-margin-top: 1rem; }
.scroll { overflow-x: auto; margin: 1rem 0; }
caption { text-align: left; padding-bottom: .3rem; }
th { text-align: left; font-weight: 600; } tbody th { font-weight: 400; border-top: 1px solid var(--line); }
table.numbers td, table.numbers thead th:not(:first-child) { text-align: right; }
figure { margin: 1rem 0; }
figure img { display: block; box-sizing: border-box; padding: .5rem; min-width: min(40rem, 100vw * 1.8); }
figure .scroll { margin: 0 0 .4rem; border-radius: 4px; background: #fff; }
p.none, span.none { color: var(--faint); background: var(--soft); border-radius: 4px; padding: 1rem; }
ul.cards { list-style: none; padding: 0; display: grid; gap: 1.2rem; }
ul.cards { grid-template-columns: repeat(auto-fill, minmax(min(17rem, 100%), 1fr)); }
ul.cards li { border: 1px solid var(--line); border-radius: 6px; overflow: hidden; padding-bottom: .7rem; }
ul.cards a { display: block; text-decoration: none; } ul.cards a:hover .title { text-decoration: underline; }
ul.cards a:focus-visible { outline-offset: -3px; }
ul.cards .frame { display: flex; align-items: center; justify-content: center; height: 9.5rem; background: #fff; }
ul.cards .frame:has(.none) { background: var(--soft); } ul.cards .frame .none { background: none; font-size: .9rem; }
ul.cards img { width: 100%; height: 100%; object-fit: contain; border-radius: 0; }
ul.cards .title, ul.cards li > span { display: block; padding: .3rem .8rem 0; }
ul.cards .title { font-weight: 600; padding-top: .6rem; line-height: 1.35; }
ul.inline { list-style: none; padding: 0; display: flex; flex-wrap: wrap; gap: .3rem 1.2rem; }
.ways p { margin-bottom: .2rem; font-weight: 600; } .ways ul { margin-top: 0; }
.claim { border-left: 3px solid var(--line); padding-left: 1rem; margin: 1.5rem 0; }
.claim h3 { margin-top: 0; font-size: 1.05rem; }
dl { display: grid; grid-template-columns: 10rem 1fr; gap: .4rem 1rem; margin: 0; font-size: .95rem; }
dt { color: var(--faint); } dd { margin: 0; overflow-wrap: anywhere; }
.status { font-weight: 600; }
.new { color: var(--new); }
details { margin-top: .3rem; } summary { cursor: pointer; }
@media (max-width: 40rem) { dl { grid-template-columns: 1fr; gap: 0; } dd { margin-bottom: .6rem; } }
"""
