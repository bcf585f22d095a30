"""Stores: damaged in every way, asked hostile questions, and shared with processes that are killed."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import hashlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

import afterfit as af
from afterfit import AfterfitError
from afterfit._base.files import SUMS, sums_of
from fuzz.nouns import choose
from fuzz.oracles import Fault, Refusal, attempt, check_sentence, demand, invoke, strict_json, tree

__all__ = ["SECRET", "check", "copy", "draw", "healthy", "prepared"]

Rng = np.random.Generator
SECRET = "xyzzy-plugh-7251"  # in a file beside the store, which nobody may read
_IDS = 6  # runs in the store
_FILES = ("spec.json", "run.json", "curves.parquet", "params.npz", "log.txt", SUMS)


@dataclasses.dataclass(frozen=True)
class Damages:
    """What is done to a store: the name of a damage, which run it is done to, and a number to do it with."""

    done: tuple[tuple[str, int, int], ...]
    use: str  # what is asked of the store then


@dataclasses.dataclass(frozen=True)
class Question:
    """A statement in SQL."""

    sql: str


@dataclasses.dataclass(frozen=True)
class Crowd:
    """Processes that publish the same runs at the same time; `kill` is when one is killed, in seconds."""

    kill: float | None


def draw(rng: Rng, number: int) -> Damages | Question | Crowd:
    kind = rng.random()
    if number % 100 == 20:  # seconds each: seldom, and at known places
        return Crowd(float(rng.uniform(0, 0.5)) if number % 200 == 20 else None)
    if kind < 0.25:
        return Question(_draw_sql(rng))
    damages = tuple(
        (choose(rng, list(_DAMAGES)), int(rng.integers(_IDS)), int(rng.integers(2**32)))
        for _ in range(int(rng.integers(1, 4)))
    )
    return Damages(damages, choose(rng, list(_USES)))


def check(case: Damages | Question | Crowd, place: Path) -> None:
    if isinstance(case, Damages):
        _check_damages(case, place)
    elif isinstance(case, Question):
        _check_question(case.sql, place)
    else:
        _check_crowd(case, place)


# ------------------------------------------------------------------------------------------ a store to damage


@functools.cache
def prepared() -> Path:
    """A store with a sweep of six runs in it, made once."""
    place = Path(tempfile.mkdtemp(prefix="afterfit-fuzz-store-"))
    import atexit

    atexit.register(shutil.rmtree, place, ignore_errors=True)
    experiment = af.Experiment(
        task=af.tasks.SparseRecovery(6, 2, 4),
        model=af.models.Linear(),
        dynamics=af.dynamics.GradientDescent(0.1, 20),
        penalty=af.penalties.L2(0.1),
        init=af.inits.Gaussian(0.5),
        observations=6,
    )
    over = {"penalty.strength": [0.01, 0.1, 1.0]}
    af.sweep(experiment, over=over, seeds=2, store=str(place / "store")).run(progress=False)
    return place / "store"


@functools.cache
def healthy() -> dict[str, dict[str, bytes]]:
    """The files of its runs."""
    ids = af.Store(prepared()).ids()
    assert len(ids) == _IDS
    return {id: {name: (prepared() / id / name).read_bytes() for name in _FILES} for id in ids}


def copy(place: Path) -> Path:
    healthy()
    shutil.copytree(prepared(), place / "store")
    return place / "store"


# ---------------------------------------------------------------------------------------------------- damage

# Each is done to the directory of a store and a run in it, with a number. It says what becomes of the run:
# "well" (it must be served as it was), "ill" (never served) or "either" (served as it was, or not at all).


def _file(run: Path, k: int) -> Path:
    return run / _FILES[k % len(_FILES)]


def _flip(run: Path, k: int) -> str:
    file = _file(run, k)
    content = bytearray(file.read_bytes())
    content[k // 7 % len(content)] ^= 1 << k % 8
    file.write_bytes(bytes(content))
    return "either" if file.name == SUMS else "ill"  # 'a' for 'A' is the same sum


def _cut(run: Path, k: int) -> str:
    file = _file(run, k)
    content = file.read_bytes()
    file.write_bytes(content[: k // 7 % len(content)])
    return "ill"


def _append(run: Path, k: int) -> str:
    file = _file(run, k)
    file.write_bytes(file.read_bytes() + np.random.default_rng(k).bytes(1 + k % 50))
    return "either" if file.name == SUMS else "ill"


def _lose(run: Path, k: int) -> str:
    _file(run, k).unlink()
    return "ill"


def _directory(run: Path, k: int) -> str:
    _file(run, k).unlink()
    _file(run, k).mkdir()
    return "ill"


def _link(run: Path, k: int) -> str:
    """A file that is elsewhere now, and linked."""
    file = _file(run, k)
    aside = run.parent.parent / f"moved-{run.name}-{file.name}"
    shutil.move(file, aside)
    file.symlink_to(aside)
    return "well"


def _link_run(run: Path, k: int) -> str:
    aside = run.parent.parent / f"moved-{run.name}"
    shutil.move(run, aside)
    run.symlink_to(aside)
    return "well"


def _dangling(run: Path, k: int) -> str:
    file = _file(run, k)
    file.unlink()
    file.symlink_to(run / "nowhere")
    return "ill"


def _foreign_in_run(run: Path, k: int) -> str:
    (run / "notes.txt").write_bytes(np.random.default_rng(k).bytes(20))
    return "well"


def _rewrite(run: Path, name: str, content: bytes) -> None:
    """Another content, with checksums that are right."""
    (run / name).write_bytes(content)
    files = {file: (run / file).read_bytes() for file in _FILES if file != SUMS and (run / file).is_file()}
    (run / SUMS).write_bytes(sums_of(files))


def _newer(run: Path, k: int) -> str:
    facts = json.loads((run / "run.json").read_bytes())
    _rewrite(run, "run.json", json.dumps({**facts, "format": 99}).encode())
    return "ill"


def _malformed(run: Path, k: int) -> str:
    contents = [b"", b"{", b"[]", b"null", b"7", b'{"format": "two"}', b'{"format": 2}', b"\xff\xfe", b"[" * 5000]
    _rewrite(run, choose(np.random.default_rng(k), ["run.json", "spec.json"]), contents[k % len(contents)])
    return "ill"


def _forged(run: Path, k: int) -> str:
    """An npz file that claims to be enormous, or holds objects; a Parquet file of something else."""
    kinds = [b"PK\x03\x04", b"PAR1", np.random.default_rng(k).bytes(200), _huge_npz()]
    _rewrite(run, ["params.npz", "curves.parquet"][k % 2], kinds[k // 2 % len(kinds)])
    return "ill"


def _huge_npz() -> bytes:
    """An array of 10¹² numbers, by what its header says."""
    import io
    import zipfile

    header = b"{'descr': '<f8', 'fortran_order': False, 'shape': (1000000000000,), }"
    header += b" " * (118 - len(header) - 1) + b"\n"
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as file:
        file.writestr('["weights"].npy', b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header)
    return buffer.getvalue()


def _misplaced(run: Path, k: int) -> str:
    """The files of one run in the place of another."""
    others = sorted(id for id in healthy() if id != run.name)
    for name, content in healthy()[others[k % len(others)]].items():
        (run / name).write_bytes(content)
    return "ill"


def _outside(make: Callable[[Path, int], None]) -> Callable[[Path, int], str]:
    """A damage to the store that is no run's."""

    def change(run: Path, k: int) -> str:
        make(run.parent, k)
        return "well"

    return change


def _garbage(name: str) -> Callable[[Path, int], str]:
    def make(store: Path, k: int) -> None:
        contents = [b"", b"{", b"[]", b"null", b'{"id": 3}', np.random.default_rng(k).bytes(300), b"\xff" * 10]
        file = store / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(contents[k % len(contents)])

    return _outside(make)


def _spoil_sweep(store: Path, k: int) -> None:
    file = max(store.glob("sweep-*.json"), key=lambda path: path.stat().st_size)
    content = bytearray(file.read_bytes())
    content[k % len(content)] ^= 1 << k % 7
    file.write_bytes(bytes(content))


def _foreign_run(store: Path, k: int) -> None:
    """A directory that is called like a run and is none."""
    directory = store / hashlib.sha256(str(k).encode()).hexdigest()[:16]
    directory.mkdir(exist_ok=True)
    (directory / ["data.csv", SUMS, "run.json"][k % 3]).write_bytes(np.random.default_rng(k).bytes(50))


_DAMAGES: dict[str, Callable[[Path, int], str]] = {
    "a bit flipped": _flip,
    "a file cut": _cut,
    "bytes appended": _append,
    "a file lost": _lose,
    "a directory for a file": _directory,
    "a file linked": _link,
    "the run linked": _link_run,
    "a link to nowhere": _dangling,
    "a foreign file in the run": _foreign_in_run,
    "a newer format": _newer,
    "malformed with right sums": _malformed,
    "forged with right sums": _forged,
    "in another's place": _misplaced,
    "garbage in index.cache": _garbage("index.cache"),
    "a garbage sweep": _garbage("sweep-0123456789abcdef.json"),
    "a sweep spoilt": _outside(_spoil_sweep),
    "a garbage lease": _garbage("leases/0123456789abcdef/token"),
    "a garbage holder": _garbage("leases/.holders/token"),
    "garbage beside": _garbage("notes.txt"),
    "a leftover": _garbage(".tmp-abc/run.json"),
    "a foreign directory": _outside(_foreign_run),
}


# ----------------------------------------------------------------------------------------------------- using


def _use_ls(store: Path) -> None:
    invoke("runs", "ls", "--store", str(store))


def _use_query(store: Path) -> None:
    strict_json(
        invoke("runs", "query", "SELECT * FROM runs, curves WHERE runs.id = curves.id", "--json", "--store", str(store))
    )


def _use_check(store: Path) -> None:
    for said in af.Store(store).check().values():
        check_sentence(said)


def _use_sweep(store: Path) -> None:
    opened = af.Store(store)
    for id in opened.sweeps():
        with contextlib.suppress(Refusal):
            attempt(lambda id=id: opened.sweep(id))
            invoke("report", id, "--store", str(store), "--out", str(store.parent / "page.html"))


def _use_show(store: Path) -> None:
    for id in healthy():
        with contextlib.suppress(Refusal):
            invoke("runs", "show", id, "--store", str(store))


_USES: dict[str, Callable[[Path], None]] = {
    "ls": _use_ls,
    "query": _use_query,
    "check": _use_check,
    "sweep": _use_sweep,
    "show": _use_show,
}


def _check_damages(case: Damages, place: Path) -> None:
    store = copy(place)
    state = dict.fromkeys(healthy(), "well")
    for how, which, number in {damage[1]: damage for damage in case.done}.values():  # one a run
        id = sorted(state)[which]
        state[id] = _DAMAGES[how](store / id, number)
    with _warnings_read():
        try:
            _USES[case.use](store)
        except Refusal as refusal:
            raise Fault(f"{case.use} is refused for the sake of one run: {refusal}") from None
        opened = af.Store(store)
        listed, summed = opened.ids(), opened.summaries()["id"].to_pylist()
    for id, became in state.items():
        if became == "well":
            demand(id in listed and id in summed, f"{id} is healthy and not listed")
        with _warnings_read():
            served = _served(opened, id)
        if became == "well":
            demand(served is not None, f"{id} is healthy and not served")
        if became == "ill":
            demand(served is None, f"{id} is not as it was written, and served")
        if served is not None:
            demand(served == _lasting(healthy()[id]), f"{id} is served, but not as it was written")


def _served(opened: af.Store, id: str) -> dict[str, bytes] | None:
    """The files of a run as it is loaded, or None if that is refused in a sentence."""
    try:
        return _lasting(opened.load(id).files())
    except AfterfitError as error:
        check_sentence(str(error))
        return None


def _lasting(files: dict[str, bytes]) -> dict[str, bytes]:
    """What a run says of its experiment: the log and the sums are written anew."""
    return {name: files[name] for name in ("spec.json", "run.json", "curves.parquet", "params.npz")}


@contextlib.contextmanager
def _warnings_read() -> Iterator[None]:
    """Warnings about damage are for people, as refusals are."""
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always", UserWarning)
        yield
    for warning in said:
        if issubclass(warning.category, UserWarning):
            check_sentence(str(warning.message))


# ------------------------------------------------------------------------------------------------------- SQL

_READ = (
    "read_text('{secret}')", "read_blob('{secret}')", "read_csv('{secret}')", "'{secret}'", "glob('{place}/*')",
    "read_json('{secret}')", "read_parquet('{place}/store/*/curves.parquet')", "sniff_csv('{secret}')",
    "read_csv('http://127.0.0.1:9/x.csv')", "parquet_scan('{place}/*')", "duckdb_settings()", "duckdb_secrets()",
    "read_text('/etc/passwd')", "sqlite_scan('{secret}', 't')", "query('SELECT 1')", "query_table('runs')", "sys",
    "os", "self", "__file__", "pragma_database_list", "duckdb_extensions()", "which_secret('{secret}', 's3')", "runs",
    "curves",
)  # fmt: skip
_DO = (
    "COPY runs TO '{out}'", "COPY (SELECT * FROM runs) TO '{out}' (FORMAT parquet)", "EXPORT DATABASE '{out}'",
    "ATTACH '{out}' AS other", "ATTACH '{out}' AS o; CREATE TABLE o.t AS SELECT 1", "INSTALL httpfs", "LOAD httpfs",
    "INSTALL '{secret}'", "LOAD '{secret}'", "SET enable_external_access = true", "RESET lock_configuration",
    "PRAGMA enable_external_access", "SET temp_directory = '{out}'", "SET home_directory = '{place}'",
    "CREATE TABLE t AS SELECT * FROM runs", "CREATE OR REPLACE TEMP VIEW runs AS SELECT 1", "DROP VIEW runs",
    "IMPORT DATABASE '{place}'", "PRAGMA database_list", "PRAGMA version", "CHECKPOINT", "VACUUM", "BEGIN",
    "CALL pragma_version()", "SET log_query_path = '{out}'", "PRAGMA profiling_output = '{out}'",
    "CREATE SECRET s (TYPE s3)", "PREPARE p AS SELECT 1", "EXPLAIN ANALYZE SELECT * FROM read_text('{secret}')",
    "CREATE MACRO f() AS TABLE SELECT * FROM read_text('{secret}')", "INSERT INTO runs VALUES (1)",
    "DELETE FROM runs", "SET memory_limit = '100TB'", "USE other", "SHOW TABLES", "DESCRIBE runs", "SUMMARIZE runs",
    "", ";", "\x00", "--", "SELECT getenv('PATH')", "SELECT current_setting('home_directory')", "SELECT '{secret}'",
    "SELECT pi(); SELECT 2", "PIVOT runs ON verdict USING count(*)",
    "WITH RECURSIVE t(x) AS (SELECT 1 UNION SELECT x+1 FROM t WHERE x<9) SELECT * FROM t", "SELECT 'a' || chr(0)",
    "SELECT 1/0, 'inf'::DOUBLE, 'nan'::DOUBLE", "SELECT a.id, b.id FROM runs a, runs b",
    "SELECT {{'x': 'inf'::DOUBLE}} AS s, [1, NULL] AS l, MAP {{'a': 1}} AS m", "SELECT 1 AS a, 2 AS a",
    "SELECT error('a\nb')", 'SELECT * FROM (VALUES (1)) t("a\nb")',
)  # fmt: skip


_AROUND = (
    "WITH t AS ({}) SELECT * FROM t", "SELECT (SELECT count(*) FROM ({}))", "({})", "EXPLAIN {}", "FROM ({}) LIMIT 3",
    "SELECT 1 UNION ALL BY NAME {}",
)  # fmt: skip


def _draw_sql(rng: Rng) -> str:
    if rng.random() < 0.5:
        statement = choose(rng, _DO)
    else:
        statement = f"SELECT * FROM {choose(rng, _READ)}"
        if rng.random() < 0.3:
            statement = choose(rng, _AROUND).format(statement)
    if rng.random() < 0.2:
        statement = f"{choose(rng, ['SELECT 1', 'SELECT count(*) FROM runs'])}; {statement}"
    if rng.random() < 0.1:
        k = int(rng.integers(len(statement) + 1))
        statement = statement[:k] + choose(rng, ["'", '"', ";", "--", "/*", "\n", "ξ", "("]) + statement[k:]
    return statement


def _check_question(sql: str, place: Path) -> None:
    """No question reads or writes a file, and all answers can be printed."""
    store = copy(place)
    secret, out = place / "secret.txt", place / "out"
    secret.write_text(f"word\n{SECRET}\n")
    asked = sql.replace("{{", "{").replace("}}", "}")
    for word, path in (("{secret}", secret), ("{out}", out), ("{place}", place)):
        asked = asked.replace(word, str(path))
    af.Store(store).summaries()  # so that the cache is there
    before = tree(place)
    outputs = []
    refused = None
    for form in ((), ("--csv",), ("--json",)):
        try:
            outputs.append(invoke("runs", "query", asked, *form, "--store", str(store)))
        except Refusal as refusal:
            refused = refusal
            demand(not outputs, f"answered plainly, refused as {form}")
            break
    said = str(refused) if refused else "".join(outputs)
    demand(SECRET not in said, "a file was read")
    demand("root:" not in said, "a file of the system was read")
    demand(tree(place) == before, f"files were written: {sorted(set(tree(place)) ^ set(before))}")
    if refused:
        raise refused
    strict_json(outputs[2])


# ------------------------------------------------------------------------------------------------- processes

_PUBLISH = """
import sys, pathlib, afterfit as af
source, target = map(pathlib.Path, sys.argv[1:])
store = af.Store(target)
print("ready", flush=True)
sys.stdin.readline()
for round in range(20):
    for run in sorted(path for path in source.iterdir() if len(path.name) == 16):
        store.lease([run.name])
        store.publish(run.name, {file.name: file.read_bytes() for file in run.iterdir()})
        store.release([run.name])
        if round % 2 and run.name in store:
            try:
                store.remove(run.name)
            except (af.SpecError, FileNotFoundError):
                pass  # somebody else has
    store.summaries()
"""


def _check_crowd(case: Crowd, place: Path) -> None:
    """Processes publish and remove the same runs, one of them is killed: what is there is whole, nothing is stuck."""
    target = place / "shared"
    arguments = [sys.executable, "-W", "ignore", "-c", _PUBLISH, str(prepared()), str(target)]
    pipes: Any = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    workers = [subprocess.Popen(arguments, **pipes) for _ in range(2)]
    try:
        for worker in workers:
            assert worker.stdout
            demand(worker.stdout.readline() == "ready\n", "a process did not start")
        for worker in workers:
            assert worker.stdin
            worker.stdin.write("\n")
            worker.stdin.flush()
        if case.kill is not None:
            time.sleep(case.kill)
            os.kill(workers[0].pid, signal.SIGKILL)
        said = [worker.communicate(timeout=60) for worker in workers]
    finally:
        for worker in workers:
            worker.kill()
            worker.wait()
    for k, worker in enumerate(workers):
        killed = case.kill is not None and k == 0
        demand(killed or worker.returncode == 0, f"a process ended with {worker.returncode}: {said[k][1][-500:]}")
    store = af.Store(target)
    for id in store.ids():
        demand(_served(store, id) == _lasting(healthy()[id]), f"{id} is not as it was published")
    missing = set(healthy()) - set(store.ids())
    demand(store.lease(missing) == missing, "leases of processes that have ended are still held")
    for id in missing:
        store.publish(id, healthy()[id])
    demand(store.ids() == sorted(healthy()), "not all runs could be published")
