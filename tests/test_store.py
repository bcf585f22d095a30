"""The run store: what is published is whole, found again and never mixed up, whoever else is at work or dies."""

from __future__ import annotations

import concurrent.futures
import contextlib
import dataclasses
import gc
import hashlib
import io
import json
import math
import os
import random
import shutil
import signal
import subprocess
import sys
import threading
import time
import tracemalloc
import uuid
import zipfile
from pathlib import Path

import numpy as np
import pytest
from fsspec.implementations.local import LocalFileSystem
from fsspec.implementations.memory import MemoryFileSystem
from hypothesis import given, settings
from hypothesis import strategies as st
from test_plot import SPEC, make_run

import afterfit as af
from afterfit._base.errors import Damaged, SpecError, Unreadable
from afterfit._base.files import arrays_from_npz, sums_of, to_json
from afterfit._sweeps.store import Store
from afterfit._sweeps.store.leases import Leases
from afterfit._sweeps.store.local import Local
from afterfit._sweeps.store.remote import Remote
from afterfit._training.run import Run

FILES = ("spec.json", "run.json", "curves.parquet", "params.npz", "log.txt", "SHA256SUMS")


def named(k: int, kind: str = "grokking", **settings) -> Run:
    """The k-th of many runs: with a name and settings of its own, and made-up curves."""
    spec = {**SPEC, "penalty": {"kind": "L1", "strength": 10.0**-k}, "seed": k, **settings}
    id = hashlib.sha256(f"{k} {kind}".encode()).hexdigest()[:16]
    return make_run(kind, spec=spec, id=id, params={"w": np.arange(k + 1.0)}, ended=1e9 + k)


def put(store: Store, *runs: Run) -> list[str]:
    for run in runs:
        assert store.publish(run.id, run.files())
    return [run.id for run in runs]


@pytest.fixture(params=["path", "file", "memory"])
def url(request, tmp_path):
    """A place for a store, as a path and as URLs."""
    if request.param == "memory":
        import fsspec

        name = f"/{uuid.uuid4().hex}"
        yield f"memory:/{name}/store"
        fsspec.filesystem("memory").rm(name, recursive=True)
    else:
        yield f"file://{tmp_path}/store" if request.param == "file" else tmp_path / "deep" / "store"


# ------------------------------------------------------------------------------------------------------- files


@pytest.mark.parametrize("kind", ["grokking", "accuracy", "diverged", "log time"])
def test_a_run_is_the_same_after_its_files(kind):
    run = named(3, kind)
    files = run.files()
    again = Run.from_files(files)
    assert sorted(files) == sorted(FILES)
    assert again.curves.identical(run.curves)
    np.testing.assert_array_equal(again.params["w"], run.params["w"])
    for field in dataclasses.fields(Run):
        if field.name not in ("curves", "params", "checkpoints"):  # those have tests of their own
            assert getattr(again, field.name) == getattr(run, field.name), field.name
    assert again.files() == files, "byte for byte, versions and times included"


def test_the_same_arrays_give_the_same_bytes(tmp_path):
    run = named(3)
    later = dataclasses.replace(run, seconds=77.0, ended=2e9).files()
    differing = {name for name, content in run.files().items() if content != later[name]}
    assert differing == {"run.json", "log.txt", "SHA256SUMS"}
    (tmp_path / "params.npz").write_bytes(later["params.npz"])
    with zipfile.ZipFile(tmp_path / "params.npz") as archive:  # a zip file has room for times
        assert {entry.date_time for entry in archive.infolist()} == {(1980, 1, 1, 0, 0, 0)}


def test_the_log_and_the_versions_say_what_matters():
    files = dataclasses.replace(named(1), status="diverged", message="at t=3", method="the stiff method").files()
    log = files["log.txt"].decode()
    for said in ("2001-09-09 01:46:41", "2001-09-09 01:46:39", "diverged: at t=3", "the stiff method", "1000000 steps"):
        assert said in log, said  # 10⁹ s after 1970, by any calendar; 1.5 s before that is when it began
    versions = json.loads(files["run.json"])["versions"]
    assert versions["jax"] == sys.modules["jax"].__version__
    assert {"python", "afterfit", "jaxlib", "equinox", "diffrax", "optax", "numpy", "scipy", "machine"} <= set(versions)


def test_a_run_knows_what_was_asked_for(tmp_path):
    asked = {
        "task": af.tasks.SparseRecovery(6, 1, 4),
        "model": af.models.Linear(),
        "dynamics": af.dynamics.GradientFlow(2.0),
        "init": af.inits.Gaussian(),
        "observations": 5,
    }
    run = af.train(**asked)
    assert run.id == af.Experiment(**asked).id
    assert run.spec["dynamics"] != asked["dynamics"].to_dict(), "the flow chose its method; the name is from before"
    own = af.models.Function(lambda params, x: params @ x, np.ones(6))
    nameless = af.train(**{**asked, "model": own, "init": None, "dynamics": af.dynamics.GradientDescent(0.1, 9)})
    assert nameless.id == af.load(nameless.save(tmp_path / "own")).id == ""
    store = Store(tmp_path / "store")
    assert store.publish(run.id, run.files())
    assert store.load(run.id).curves.identical(run.curves)
    with pytest.raises(SpecError, match="without a name cannot be stored"):
        store.publish(nameless.id, nameless.files())
    with pytest.raises(SpecError, match=r"no params\.npz"):
        store.publish(run.id, {name: content for name, content in run.files().items() if name != "params.npz"})
    with pytest.raises(SpecError, match="not of 0123456789abcdef"):
        store.publish("0123456789abcdef", run.files())


# -------------------------------------------------------------------------------------------------------- runs


def test_what_is_published_is_found_again(url):
    store = Store(url)
    assert store.ids() == []
    runs = [named(k) for k in range(4)]
    ids = put(store, *runs)
    other = Store(url)
    assert other.ids() == sorted(ids)
    assert all(id in other for id in ids)
    assert "0" * 16 not in other
    for outside in ("../store", "..", "", f"../store/{ids[0]}"):
        assert outside not in other
        with pytest.raises(SpecError, match="there is no run"):
            other.files(outside)
    for run in runs:
        assert other.load(run.id).files() == run.files()
        assert sorted(other.files(run.id)) == sorted(FILES)
    assert not store.publish(ids[0], dataclasses.replace(runs[0], message="late").files())
    assert store.load(ids[0]).message == "", "the first one stays"
    other.remove(ids[0])
    assert ids[0] not in store
    with pytest.raises(SpecError, match="there is no run"):
        store.load(ids[0])
    with pytest.raises(SpecError, match="there is no run"):
        store.remove(ids[0])


def test_the_beginning_of_a_name_is_enough(tmp_path):
    store = Store(tmp_path)
    run, twin = named(1), dataclasses.replace(named(2), id=f"{named(1).id[:8]}ffffffff")
    put(store, run, twin)
    assert store.load(run.id[:9]).id == run.id
    for beginning, said in ((run.id[:8], "2 runs begin with"), ("xyz", "there is no run 'xyz'"), ("", "there is no")):
        with pytest.raises(SpecError, match=said):
            store.load(beginning)


def test_only_a_store_that_is_understood_is_used(url, tmp_path):
    put(Store(url), named(1))
    Store(url)._place.write("store.json", b'{"format": 99}')
    with pytest.raises(SpecError, match=r"newer afterfit \(format 99.*upgrade"):
        Store(url)
    (tmp_path / "thesis").mkdir()
    (tmp_path / "thesis" / "chapter.tex").write_text("precious")
    with pytest.raises(SpecError, match="not a store"):
        Store(tmp_path / "thesis")
    with pytest.raises(SpecError, match=r"chapter\.tex is a file"):
        Store(tmp_path / "thesis" / "chapter.tex")
    with pytest.raises(SpecError, match="nosuch"):
        Store("nosuch://place")
    (tmp_path / "garbage").mkdir()
    for garbage in (b"", b"[]", b"\xff", b'{"format": 1e999}', b"[" * 100_000):
        (tmp_path / "garbage" / "store.json").write_bytes(garbage)
        with pytest.raises(SpecError, match="is this a store of afterfit"):
            Store(tmp_path / "garbage")


def test_reading_makes_nothing(tmp_path):
    store = Store(tmp_path / "typo")
    assert store.ids() == []
    assert len(store.summaries()) == 0
    assert store.query("SELECT count(*) AS n FROM runs, curves")["n"].to_pylist() == [0]
    assert not (tmp_path / "typo" / "store.json").exists()


# ------------------------------------------------------------------------------------------------------ damage


@given(name=st.sampled_from(FILES), how=st.sampled_from(["flip", "cut", "grow", "delete"]), data=st.data())
@settings(max_examples=60)
def test_any_damage_is_seen(tmp_path_factory, name, how, data):
    root = tmp_path_factory.mktemp("damage")
    store, run = Store(root), named(2)
    put(store, run)
    path = root / run.id / name
    content = bytearray(path.read_bytes())
    at = data.draw(st.integers(0, len(content) - 1))
    if how == "flip":
        content[at] ^= data.draw(st.integers(1, 255))
    elif how == "cut":
        del content[at:]
    else:
        content.append(data.draw(st.integers(0, 255)))
    path.write_bytes(content)
    if how == "delete":
        path.unlink()
    with pytest.raises(Damaged, match=f"run {run.id}.*{name}" if name != "SHA256SUMS" else run.id) as refusal:
        store.load(run.id)
    assert "run the experiment again" in str(refusal.value)
    assert run.id not in store
    assert store.ids() == []
    aside = root / "damaged" / f"{run.id}-1"
    assert how == "delete" or (aside / name).read_bytes() == bytes(content), "kept for whoever wants to know"
    put(store, run)
    assert store.load(run.id).files() == run.files()
    shutil.rmtree(root)


def test_a_check_finds_all_that_is_damaged(url):
    store = Store(url)
    ids = put(store, *(named(k) for k in range(5)))
    store._place.write(f"{ids[1]}/params.npz", b"")
    store._place.write(f"{ids[3]}/run.json", store._place.read([f"{ids[2]}/run.json"])[f"{ids[2]}/run.json"])
    wrong = store.check()
    assert set(wrong) == {ids[1], ids[3]}
    assert "params.npz does not match" in wrong[ids[1]]
    assert store.ids() == sorted({*ids} - {*wrong})
    assert store.check() == {}
    for _ in range(2):  # damaged twice, kept twice
        put(store, named(1))
        store._place.write(f"{ids[1]}/params.npz", b"")
        assert list(store.check()) == [ids[1]]
    kept = store._place.read(f"damaged/{ids[1]}-{k}/params.npz" for k in (1, 2, 3))
    assert list(kept.values()) == [b""] * 3


def test_a_run_in_the_place_of_another_is_not_taken_for_it(tmp_path):
    store = Store(tmp_path)
    first, second = put(store, named(1), named(2))
    shutil.rmtree(tmp_path / first)
    shutil.copytree(tmp_path / second, tmp_path / first)
    with pytest.raises(Damaged, match=f"in the place of {second}"):
        store.load(first)
    shutil.copytree(tmp_path / second, tmp_path / first)
    with pytest.warns(UserWarning, match=f"in the place of {second}"):
        assert store.summaries()["id"].to_pylist() == [second]


def rewritten(run: Run, **files: bytes | None) -> dict[str, bytes]:
    """The files of a run, some of them others or not there, with checksums that fit."""
    named = {name.replace("_", "."): content for name, content in files.items()}
    changed = {name: content for name, content in {**run.files(), **named}.items() if content is not None}
    return {**changed, "SHA256SUMS": sums_of({k: v for k, v in changed.items() if k != "SHA256SUMS"})}


def lay(store: Store, id: str, files: dict[str, bytes]) -> None:
    """Files in the place of a run, as they are."""
    for name, content in files.items():
        store._place.write(f"{id}/{name}", content)


def facts_of(run: Run, **changes) -> bytes:
    return json.dumps({**json.loads(run.files()["run.json"]), **changes}).encode()


def without_pyarrow_parquet(store, id, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow.parquet", None)


def file_that_does_not_come(store, id, monkeypatch):
    file = Path(store.url) / id / "log.txt"
    file.unlink()
    file.symlink_to("log.txt")  # in circles: an error of the file system's, also for one who may do everything


def newer_with_other_files(store, id, monkeypatch):
    shutil.rmtree(Path(store.url) / id)
    lay(store, id, rewritten(named(1), run_json=facts_of(named(1), format=99, metric=7), log_txt=None))


@pytest.mark.parametrize("trouble", [without_pyarrow_parquet, file_that_does_not_come, newer_with_other_files])
def test_what_cannot_be_read_here_is_not_damaged(tmp_path, monkeypatch, trouble):
    store = Store(tmp_path)
    (id, other) = put(store, named(1), named(2))
    trouble(store, id, monkeypatch)
    before = sorted(path for path in tmp_path.rglob("*") if path.name != "index.cache")
    with pytest.warns(UserWarning, match=f"run ({id}|{other}).* (cannot be read|newer afterfit)"):
        assert store.check() == {}
    with pytest.raises(Unreadable, match=f"run {id}"):
        store.load(id)
    assert store.set_aside_damaged([id, other]) == {}
    assert sorted(path for path in tmp_path.rglob("*") if path.name != "index.cache") == before


def test_a_connection_that_fails_is_not_damage():
    store = Store(f"memory://{uuid.uuid4().hex}")
    (id,) = put(store, named(1))
    fetch = store._place.filesystem.cat_file

    def stumble(path, *args, **options):
        if path.endswith("params.npz"):
            raise TimeoutError("the bucket does not answer")
        return fetch(path, *args, **options)

    store._place.filesystem.cat_file = stumble
    try:
        with pytest.raises(Unreadable, match="the bucket does not answer"):
            store.load(id)
    finally:
        del store._place.filesystem.cat_file
    assert store.load(id).id == id


MALFORMED = {
    "a time in words": lambda run: {"run_json": facts_of(run, ended="yesterday")},
    "no verdict": lambda run: {"run_json": facts_of(run, verdict=[3])},
    "a final value in words": lambda run: {"run_json": facts_of(run, final={"test_error": "small"})},
    "a list": lambda run: {"run_json": b"[]"},
    "no setting": lambda run: {"spec_json": b'"L1"'},
    "no UTF-8": lambda run: {"spec_json": b'{"task": "\xff"}'},
    "without end": lambda run: {"spec_json": b"[" * 100_000},
    "a number beyond all": lambda run: {"run_json": facts_of(run, seconds=10**400)},
}


@pytest.mark.parametrize("how", MALFORMED)
def test_one_malformed_or_newer_run_does_not_stop_the_others(tmp_path, how):
    store, wrong, newer = Store(tmp_path), named(1), named(2)
    (good,) = put(store, named(3))
    lay(store, wrong.id, rewritten(wrong, **MALFORMED[how](wrong)))
    lay(store, newer.id, rewritten(newer, run_json=facts_of(newer, format=99), params_npz=None))
    with pytest.warns(UserWarning, match=f"run ({wrong.id} is damaged|{newer.id} was written by a newer)") as said:
        assert store.summaries()["id"].to_pylist() == [good]
    assert len(said) == 2
    assert store.summaries()["id"].to_pylist() == [good], "said once"
    assert store.ids() == sorted([newer.id, good])
    put(store, wrong)
    assert set(store.summaries()["id"].to_pylist()) == {wrong.id, good}


def test_strange_settings_have_a_column_all_the_same(tmp_path):
    store = Store(tmp_path)
    strange = {"id": "mine", ".row": 1, "task": {**SPEC["task"], "n": 2**70, "path": "caf\udce9"}, "sp\udce9cial": 1}
    ids = put(store, named(1, **strange), named(2))
    rows = {row["id"]: row for row in Store(tmp_path).summaries().to_pylist()}
    assert set(rows) == set(ids)
    assert rows[ids[0]]["task.n"] == str(2**70)
    assert rows[ids[0]]["task.path"] == "caf\\udce9"
    assert store.load(ids[0]).spec["task"]["path"] == "caf\udce9"


def test_what_is_in_the_way_of_a_run_is_set_aside(tmp_path):
    store, run = Store(tmp_path / "store"), named(1)
    (other,) = put(store, named(2))
    place = tmp_path / "store" / run.id
    place.write_text("not a directory")
    assert run.id not in store
    put(store, run)
    assert (tmp_path / "store" / "damaged" / f"{run.id}-1").read_text() == "not a directory"
    shutil.rmtree(place)
    place.symlink_to(tmp_path / "nowhere")
    assert store.ids() == [other]
    put(store, run)
    shutil.copytree(place, tmp_path / "archive")
    shutil.rmtree(place)
    place.symlink_to(tmp_path / "archive")
    assert store.load(run.id).files() == run.files(), "a link to a run is a run"
    store.remove(run.id)
    assert (tmp_path / "archive" / "run.json").is_file(), "and removing it does not remove what it leads to"
    assert not list((tmp_path / "store").glob(".tmp-*"))


def test_a_pipe_in_the_place_of_a_file_is_not_waited_for(tmp_path):
    store = Store(tmp_path)
    (id,) = put(store, named(1))
    (tmp_path / id / "run.json").unlink()
    os.mkfifo(tmp_path / id / "run.json")
    with pytest.raises(Damaged, match=r"no run\.json"):
        store.load(id)


def test_a_place_that_is_not_utf8(tmp_path):
    store = Store(os.fsencode(tmp_path) + b"/caf\xe9")
    (id,) = put(store, named(1))
    assert Store(store.url).query("SELECT id, count(*) AS n FROM curves GROUP BY id").to_pylist() == [
        {"id": id, "n": named(1).curves.sizes["time"]}
    ]


# ----------------------------------------------------------------------------------------- files made to do harm


def npz_of(place: str, content: bytes, **options) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", **options) as archive:
        archive.writestr(f"{place}.npy", content)
    return buffer.getvalue()


def npy(shape: str, descr: str = "'<f8'", rest: bytes = b"") -> bytes:
    header = f"{{'descr': {descr}, 'fortran_order': False, 'shape': {shape}}}"
    header += " " * (117 - len(header)) + "\n"
    return b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header.encode() + rest


@pytest.mark.parametrize(
    "content",
    [
        npz_of('["w"]', npy("(10000000000,)")),
        npz_of('["w"]', npy("(2,)", rest=bytes(16)) + bytes(10**7), compression=zipfile.ZIP_DEFLATED),
        npz_of('["w"]', npy("(1,)", descr="'|O'", rest=bytes(8))),
        npz_of('["w"]', npy("(-1,)", rest=bytes(8))),
        npz_of('["w"]', npy("(1", rest=bytes(8))),
        npz_of("w", npy("(1,)", rest=bytes(8))),
        npz_of("[" * 5000, npy("(1,)", rest=bytes(8))),
        b"PK\x03\x04",
        b"",
    ],
    ids=["forged size", "packed", "objects", "negative", "header", "place", "nested", "cut", "empty"],
)
def test_arrays_that_are_not_what_they_say_are_refused_before_any_memory_is_taken(content):
    tracemalloc.start()
    try:
        with pytest.raises(ValueError, match=r"\w"):
            arrays_from_npz(content)
        assert tracemalloc.get_traced_memory()[1] < 1e6
    finally:
        tracemalloc.stop()
    with pytest.raises(Damaged, match=r"params\.npz cannot be read"):
        Run.from_files(rewritten(named(1), params_npz=content))


def test_curves_that_are_not_what_they_say_are_refused():
    import pyarrow as pa
    import pyarrow.parquet as pq

    def parquet(**columns) -> bytes:
        shapes = {name: [] for name in columns}
        sink = pa.BufferOutputStream()
        table = pa.table(columns).replace_schema_metadata({"afterfit": json.dumps({"shapes": shapes})})
        pq.write_table(table, sink)
        return sink.getvalue().to_pybytes()

    axes = {"time": np.arange(3.0), "log10_time": np.arange(3.0), "step": np.arange(3)}
    long = {name: np.zeros(3_000_000) for name in axes}
    for content in (b"", b"PAR1", parquet(**long), parquet(**axes, test_error=["a", "b", "c"]), parquet(time=[1.0])):
        with pytest.raises(Damaged, match=r"curves\.parquet cannot be read"):
            Run.from_files(rewritten(named(1), curves_parquet=content))


# ------------------------------------------------------------------------------------------------------ tables

KINDS = ("grokking", "with the fit", "diverged", "accuracy", "log time")


def test_sql_answers_as_numpy_does(url):
    store = Store(url)
    runs = [
        named(k, KINDS[k % 5], model={"kind": "MLP", "hidden": [k, 2]} if k % 2 else SPEC["model"]) for k in range(12)
    ]
    ids = put(store, *runs)
    loaded = {id: store.load(id) for id in ids}
    table = Store(url).query("SELECT * FROM runs").to_pylist()
    assert [row["id"] for row in table] == ids[::-1], "the latest first"
    for row in table:
        run = loaded[row["id"]]
        verdict = run.verdict
        assert row["verdict"] == verdict.kind
        for name in ("t_fit", "t_gen", "delay", "delay_ratio"):
            assert row[name] == getattr(verdict, name), name  # infinities and what is missing included
        assert (row["status"], row["seconds"], row["seed"]) == (run.status, run.seconds, run.spec["seed"])
        assert row["penalty.strength"] == run.spec["penalty"]["strength"]
        assert row["model.hidden"] == (json.dumps(run.spec["model"]["hidden"]) if run.spec["seed"] % 2 else None)
        for name in ("norm_l2", f"test_{run.metric}"):
            np.testing.assert_equal(row[f"final.{name}"], run.curves[name].values[-1])

    asked = 'SELECT verdict, median(t_gen) AS t, sum("penalty.strength") AS s FROM runs GROUP BY verdict'
    answer = {row["verdict"]: row for row in store.query(asked).to_pylist()}
    assert set(answer) == {run.verdict.kind for run in runs}
    for kind, row in answer.items():
        mine = [run for run in loaded.values() if run.verdict.kind == kind]
        times = [run.verdict.t_gen for run in mine if run.verdict.t_gen is not None]
        assert row["t"] == (np.median(times) if times else None)
        assert math.isclose(row["s"], sum(run.spec["penalty"]["strength"] for run in mine))

    asked = (
        "SELECT id, count(*) AS n, max(norm_l1) AS top, max(train_error) AS e FROM curves WHERE time > 1 GROUP BY id"
    )
    answer = store.query(asked).to_pylist()
    assert {row["id"] for row in answer} == set(ids)
    for row in answer:
        curves = loaded[row["id"]].curves
        late = curves.isel(time=curves.time.values > 1)
        assert (row["n"], row["top"]) == (late.sizes["time"], late.norm_l1.values.max())
        if loaded[row["id"]].metric == "accuracy":
            assert row["e"] is None, "a quantity that a run does not have"
    with pytest.raises(SpecError, match="needs double quotes"):
        store.query("SELECT penalty.strength FROM runs")


def test_curves_that_are_damaged_are_not_queried(tmp_path):
    store = Store(tmp_path)
    ids = put(store, named(1), named(2))
    store.summaries()
    path = tmp_path / ids[0] / "curves.parquet"
    path.write_bytes(path.read_bytes().replace(b"PAR1", b"PAR2", 1))
    with pytest.warns(UserWarning, match=r"curves\.parquet does not match"):
        assert set(store.query("SELECT id FROM curves")["id"].to_pylist()) == {ids[1]}
    assert store.query("SELECT DISTINCT id FROM curves")["id"].to_pylist() == [ids[1]]


def test_settings_of_mixed_kinds_become_words(tmp_path):
    store = Store(tmp_path)
    whole, half, word = ({"kind": "GradientFlow", "until": until} for until in (1, 0.5, "settled"))
    put(store, named(1, dynamics=whole), named(2, dynamics=half))
    assert store.summaries()["dynamics.until"].to_pylist() == [0.5, 1.0]
    put(store, named(3, dynamics=word))
    assert store.summaries()["dynamics.until"].to_pylist() == ["settled", "0.5", "1"]
    assert store.query('SELECT sum(TRY_CAST("dynamics.until" AS DOUBLE)) AS s FROM runs')["s"].to_pylist() == [1.5]


def test_models_of_different_sizes_share_a_table(url):
    store = Store(url)
    runs = [named(k, kind) for k, kind in ((1, "grokking"), (2, "accuracy"))]
    for k, run in enumerate(runs):
        weights = np.arange(run.curves.sizes["time"] * (k + 2)).reshape(-1, k + 2)
        run.curves["weights"] = (("time", "coordinate"), weights.astype(float) if k else weights, {})
    ids = put(store, *runs)
    asked = "SELECT id, list(len(weights)) AS sizes, max(weights[1]) AS last, any_value(test_error) AS e FROM curves"
    answer = {row["id"]: row for row in store.query(f"{asked} GROUP BY id").to_pylist()}
    for k, (id, run) in enumerate(zip(ids, runs, strict=True)):
        assert set(answer[id]["sizes"]) == {k + 2}
        assert answer[id]["last"] == run.curves["weights"].values[-1, 0]
        assert (answer[id]["e"] is None) == (run.metric == "accuracy")
    # Each table twice, and a part of one that another decides: whatever is read, and however often.
    asked = "SELECT count(*) AS n FROM curves a JOIN curves b USING (id, step) WHERE id = (SELECT min(id) FROM runs)"
    assert store.query(asked)["n"].to_pylist() == [runs[ids.index(min(ids))].curves.sizes["time"]]


@pytest.mark.parametrize(
    "sql",
    [
        "COPY runs TO 'out.csv'",
        "EXPORT DATABASE 'out'",
        "ATTACH 'out.db'",
        "CREATE TABLE t AS SELECT 1",
        "INSTALL httpfs",
        "LOAD httpfs",
        "SET enable_external_access = true",
        "PRAGMA version",
        "SELECT 1; DROP VIEW runs",
        "SELECT * FROM read_text('secret.txt')",
        "SELECT * FROM 'secret.csv'",
        "SELECT * FROM glob('*')",
        "SELECT * FROM read_csv('http://127.0.0.1:9/x.csv')",
        "SELECT * FROM enable_profiling(save_location = 'out.json')",
        "SELECT * FROM runs, sql",  # a variable of the program
        "EXPLAIN ANALYZE COPY runs TO 'out.csv'",
    ],
)
def test_a_question_can_only_ask(tmp_path, monkeypatch, sql):
    monkeypatch.chdir(tmp_path)
    Path("secret.txt").write_text("precious")
    Path("secret.csv").write_text("word\nprecious\n")
    with pytest.raises(SpecError, match="cannot answer") as refusal:
        Store("store").query(sql)
    assert "precious" not in str(refusal.value)
    assert "\n" not in str(refusal.value)
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["secret.csv", "secret.txt"]


@pytest.mark.parametrize(
    ("sql", "seconds", "said"),
    [
        ("SELECT count(*) FROM range(100000000000000)", 2, "longer than 2 s"),
        ("SELECT range(1000000000)", 60, "more memory than 0.4 GB"),  # which DuckDB itself does not notice
        ("SELECT * FROM range(1000000000) ORDER BY hash(range)", 60, "more memory than a query may"),
        ("SELECT * FROM range(1000000000000)", 60, "larger than 0.1 GB"),
    ],
)
def test_memory_and_time_of_a_question_are_bounded(tmp_path, monkeypatch, sql, seconds, said):
    monkeypatch.setattr("afterfit._sweeps.store.sql.SECONDS", seconds)
    monkeypatch.setattr("afterfit._sweeps.store.sql.MEMORY", 4e8)
    began = time.monotonic()
    with pytest.raises(SpecError, match=said):
        Store(tmp_path).query(sql)
    assert time.monotonic() - began < seconds + 20


def test_columns_of_one_name_are_told_apart(tmp_path):
    store = Store(tmp_path)
    put(store, named(1), named(2))
    answer = store.query("SELECT a.id, b.id, 7 AS id_1, a.seed FROM runs a, runs b WHERE a.seed < b.seed")
    assert answer.to_pylist() == [{"id": named(1).id, "id_2": named(2).id, "id_1": 7, "seed": 1}]


def test_a_sweep_that_is_not_as_it_was_written_is_not_believed(url):
    store, sweep = Store(url), {"spec": {"seed": 1}, "over": {"task.n": [3, 4.5]}, "seeds": [0, 1]}
    store.keep_sweep("abc", sweep)
    assert store.sweep("a") == sweep
    content = store._place.read(["sweep-abc.json"])["sweep-abc.json"]
    assert {**json.loads(content), **sweep} == json.loads(content), "as earlier afterfits read it"
    for damaged in (content.replace(b"4.5", b"4.6"), content[:-9], b"\x00\xff", b"[]", b""):
        store._place.write("sweep-abc.json", damaged)
        with pytest.raises(Damaged, match="sweep abc is damaged"):
            store.sweep("abc")
        assert store.sweeps() == ["abc"]
    store._place.write("sweep-abc.json", json.dumps(sweep).encode())  # as earlier afterfits wrote it
    assert store.sweep("abc") == sweep


def test_json_is_what_every_reader_takes():
    def fail(word):
        raise AssertionError(word)

    for kind in ("grokking", "diverged", "log time"):
        files = named(1, kind).files()
        for name in ("run.json", "spec.json"):
            json.loads(files[name].decode(), parse_constant=fail)
    said = to_json({"a": [math.inf, {"b": -math.inf}], "c": (math.nan, np.float64("nan")), "d": "\udcff"})
    assert json.loads(said.decode(), parse_constant=fail) == {
        "a": ["inf", {"b": "-inf"}],
        "c": ["nan", "nan"],
        "d": "\udcff",
    }


def test_the_table_keeps_up_with_the_store(url):
    store, other = Store(url), Store(url)
    ids = put(store, named(0), named(1))
    assert set(store.summaries()["id"].to_pylist()) == set(ids)
    ids += put(other, named(2))
    assert set(store.summaries()["id"].to_pylist()) == set(ids)
    other.remove(ids[0])
    assert set(store.summaries()["id"].to_pylist()) == set(ids[1:])
    other.remove(ids[1])
    put(other, dataclasses.replace(named(1), seconds=99.0))
    assert store.query("SELECT max(seconds) AS s FROM runs")["s"].to_pylist() == [99.0], "the one that is there now"
    right = store.summaries()
    content = bytearray(store._place.read(["index.cache"])["index.cache"])
    for damage in (b"", content[:-7], bytes([*content[:200], content[200] ^ 1, *content[201:]])):
        store._place.write("index.cache", bytes(damage))
        assert Store(url).summaries().equals(right)
        assert store._place.read(["index.cache"])["index.cache"] == bytes(content)
    store._place.forget("index.cache")
    assert Store(url).summaries().equals(right)


def test_damaged_runs_are_not_in_the_table(url):
    store = Store(url)
    ids = put(store, *(named(k) for k in range(3)))
    store._place.write(f"{ids[0]}/run.json", b"{}")
    with pytest.warns(UserWarning, match=r"run\.json does not match its checksum.*run the experiment again"):
        assert store.summaries()["id"].to_pylist() == [ids[2], ids[1]]
    assert ids[0] not in store


# ------------------------------------------------------------------------------------------------------ leases


def names(count: int) -> list[str]:
    return [f"{k:016x}" for k in range(count)]


def test_a_lease_is_held_by_one(url):
    store, other = Store(url), Store(url)
    ids = names(4)
    (done,) = put(store, named(1))
    assert store.lease([*ids[:3], done]) == set(ids[:3]), "what is stored needs no work"
    assert other.lease(ids) == {ids[3]}
    assert store.lease(ids) == set(ids[:3]), "what it holds, it holds"
    other.release(ids)  # it cannot release what is not its own
    assert Store(url).lease(ids) == {ids[3]}, "and a store that is gone holds nothing"
    gc.collect()
    store.release(ids[:1])
    assert other.lease(ids) == {ids[0], ids[3]}
    del store
    gc.collect()
    assert other.lease(ids) == set(ids)
    other.release(ids)
    assert other._place.read(["leases/.holders/" + other._leases._token]) == {}


def test_whoever_ends_a_dead_lease_late_takes_nothing_from_the_next_holder(url):
    place = Store(url)._place
    id = names(1)[0]
    assert place.lease(id, "dead")
    assert not place.lease(id, "first")
    for _ in range(2):  # two that saw the lease of the dead
        place.release(id, "dead")
    assert place.lease(id, "first")
    place.release(id, "dead")
    assert place.holders(id) == {"first"}
    assert not place.lease(id, "second")
    place.release(id, "first")
    assert place.lease(id, "second")


class Unlocked(MemoryFileSystem):
    """A place where every step takes a moment, and that cannot make a file only if there is none."""

    cachable = False

    def pipe_file(self, path, value, mode="overwrite", **kwargs):
        time.sleep(random.uniform(0, 1e-4))
        super().pipe_file(path, value, **kwargs)
        time.sleep(random.uniform(0, 1e-4))

    def ls(self, path, detail=True, **kwargs):
        time.sleep(random.uniform(0, 1e-4))
        return super().ls(path, detail=detail, **kwargs)


@pytest.mark.parametrize("where", ["in memory", "in files", "in a directory"])
def test_of_many_who_race_for_a_dead_lease_one_has_it(tmp_path, monkeypatch, where):
    # All find the same holder dead at the same moment, 60 times.
    monkeypatch.setattr("afterfit._sweeps.store.remote._MOMENT", 0.005)
    racers, rounds = 8, 60
    kinds = {
        "in memory": lambda: Remote(Unlocked(), "/race", "memory://race"),
        "in files": lambda: Remote(LocalFileSystem(), str(tmp_path), "file://race"),
        "in a directory": lambda: Local(tmp_path),
    }
    place, gate = kinds[where](), threading.Barrier(racers, timeout=60)
    for id in names(rounds):
        assert place.lease(id, "dead")

    def race(_):
        leases, won = Leases(place), set()
        try:
            for id in names(rounds):
                gate.wait()
                won |= leases.take([id])
            gate.wait()  # until all have tried, nobody leaves
        except threading.BrokenBarrierError:  # another has the error
            pass
        except BaseException:
            gate.abort()
            raise
        return won

    with concurrent.futures.ThreadPoolExecutor(racers) as pool:
        won = list(pool.map(race, range(racers)))
    assert sorted(id for ids in won for id in ids) == names(rounds), "each by one"


@pytest.mark.parametrize(("silent", "free"), [(50, False), (70, True)])
def test_holders_on_other_machines_are_known_by_their_signs_of_life(tmp_path, silent, free):
    store = Store(tmp_path)
    store.lease([])  # makes the store
    id = names(1)[0]
    who = {"machine": "far away", "pid": os.getpid(), "began": 0.0}
    store._place.write("leases/.holders/token", json.dumps(who).encode())
    assert store._place.lease(id, "token")
    then = time.time() - silent
    os.utime(tmp_path / "leases/.holders/token", (then, then))
    assert store.lease([id]) == ({id} if free else set())


@pytest.mark.parametrize(
    "garbage", [b"", b"[]", b"\xff", b'{"machine": 1}', b'{"machine": "", "pid": "x", "began": 0}']
)
def test_a_holder_that_says_nothing_holds_nothing(tmp_path, garbage):
    store, id = Store(tmp_path), names(1)[0]
    store.lease([])
    store._place.write("leases/.holders/token", garbage)
    assert store._place.lease(id, "token")
    assert store.lease([id]) == {id}


def test_signs_of_life_are_given(tmp_path, monkeypatch):
    monkeypatch.setattr("afterfit._sweeps.store.leases._BEAT", 0.01)
    place = Store(tmp_path)._place
    leases = Leases(place)
    leases.take(names(3))
    file = tmp_path / "leases/.holders" / leases._token

    def wait_until(condition):
        deadline = time.monotonic() + 30
        while not condition():
            assert time.monotonic() < deadline
            time.sleep(0.01)

    os.utime(file, (0, 0))
    wait_until(lambda: file.stat().st_mtime > 0)
    file.unlink()  # somebody thought it dead
    wait_until(file.exists)
    leases.release(names(3))
    assert not file.exists()


def test_a_process_number_that_was_given_again_holds_nothing(tmp_path):
    store, other = Store(tmp_path), Store(tmp_path)
    assert store.lease(names(1))
    file = tmp_path / "leases/.holders" / store._leases._token
    who = json.loads(file.read_text())
    file.write_text(json.dumps({**who, "began": who["began"] - 1000}))
    assert other.lease(names(1)) == set(names(1))


# --------------------------------------------------------------------------------------------------- processes


@contextlib.contextmanager
def spawned(program: str, *args: str | Path):
    """A Python process with pipes, ended by force if the test does not see its end."""
    environ = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    with subprocess.Popen([sys.executable, "-c", PROLOGUE + program, *args], env=environ, **pipes) as process:
        try:
            yield process
        finally:
            process.kill()


PROLOGUE = """
import json, os, pathlib, signal, sys
from afterfit._sweeps.store import Store
store = Store(sys.argv[1])
names = lambda count: [f"{k:016x}" for k in range(count)]
files_in = lambda place: {path.name: path.read_bytes() for path in pathlib.Path(place).iterdir()}
"""
HOLDER = """
print(len(store.lease(names(100))), flush=True)
sys.stdin.read()
"""
RACER = """
id, files = sys.argv[2], files_in(sys.argv[3])
print("ready", flush=True)
sys.stdin.readline()
published = store.publish(id, files)
leased = store.lease(names(200))
print(json.dumps([published, sorted(leased)]), flush=True)
sys.stdin.read()
"""


def test_leases_of_the_killed_go_to_exactly_one_of_those_who_race_for_them(tmp_path):
    run, root = named(1), tmp_path / "store"
    places = {name: dataclasses.replace(run, message=name).save(tmp_path / name) for name in "ab"}
    with contextlib.ExitStack() as stack:
        holder = stack.enter_context(spawned(HOLDER, root))
        racers = [stack.enter_context(spawned(RACER, root, run.id, place)) for place in places.values()]
        assert holder.stdout.readline() == "100\n"
        store = Store(root)
        assert store.lease(names(100)) == set()
        for racer in racers:
            assert racer.stdout.readline() == "ready\n"
        os.kill(holder.pid, signal.SIGKILL)  # and not waited for: a process that is dead but not buried
        time.sleep(0.05)
        for racer in racers:
            racer.stdin.write("go\n")
            racer.stdin.flush()
        told = [json.loads(racer.stdout.readline()) for racer in racers]
        leased = [id for _, ids in told for id in ids]
        assert sorted(leased) == names(200), "each once"
        # Both published the same name at the same time: the one that was told so is the one that is there.
        (winner,) = [name for name, (published, _) in zip(places, told, strict=True) if published]
        assert store.load(run.id).message == winner
        assert not list(root.glob(".tmp-*"))
        racers[0].stdin.close()  # one leaves in order, one by force: nothing is held any longer
        racers[1].kill()
        for racer in racers:
            racer.wait(60)
    assert store.lease(names(200)) == set(names(200))


DYING = """
counting, left = False, 0

def die_at_the_last(event, args):
    global left
    if counting and event in ("open", "os.mkdir", "os.rename", "os.rmdir", "os.remove", "shutil.rmtree"):
        left -= 1
        if left < 0:
            os.kill(os.getpid(), signal.SIGKILL)

sys.addaudithook(die_at_the_last)
store.lease([])
for steps, place in enumerate(sys.argv[2:]):
    files = files_in(place)
    child = os.fork()
    if child == 0:
        counting, left = True, steps
        store.publish(json.loads(files["run.json"])["id"], files)
        os._exit(0)
    if os.waitpid(child, 0)[1] == 0:
        break
print(steps)
"""


def test_a_publisher_killed_at_any_step_leaves_nothing_half_written(tmp_path):
    runs, root = [named(k) for k in range(30)], tmp_path / "store"
    places = [run.save(tmp_path / run.id) for run in runs]
    with spawned(DYING, root, *places) as process:
        steps = int(process.stdout.readline())
    assert len(FILES) < steps < 29, "it was killed before every file and every renaming, and at last not"
    store = Store(root)
    seen = store.ids()
    assert runs[steps].id in seen
    assert runs[0].id not in seen
    for run in runs:
        if run.id in seen:
            assert store.load(run.id).files() == run.files()
    assert list(root.glob(".tmp-*"))
    assert store.check() == {}
    assert list(root.glob(".tmp-*")), "they may be somebody's who is at work"
    store._place.sweep_up(age=-1)
    assert not list(root.glob(".tmp-*"))
    assert store.ids() == seen


def test_a_run_that_goes_while_it_is_published_again_is_published(tmp_path, monkeypatch):
    """Somebody removes it between two looks at it: then there is nothing to be set aside."""
    place = Local(tmp_path)
    files = {"a.txt": b"1", "SHA256SUMS": b""}
    assert place.publish("0123456789abcdef", files)

    def gone_by_now(id):
        place.remove(id)
        return False

    monkeypatch.setattr(place, "has", gone_by_now)
    assert place.publish("0123456789abcdef", files)
    assert (tmp_path / "0123456789abcdef" / "a.txt").read_bytes() == b"1"
