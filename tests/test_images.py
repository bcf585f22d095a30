"""Images in files: what is read, refused, found and fetched, and what they are known by."""

from __future__ import annotations

import dataclasses
import functools
import gzip
import hashlib
import http.server
import io
import json
import os
import pickle
import shutil
import signal
import struct
import subprocess
import sys
import tarfile
import threading
import time
import zipfile
from pathlib import Path

import jax
import numpy as np
import pytest
from conftest import AT_ONCE
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from test_cli import call

import afterfit as af
from afterfit import SpecError
from afterfit._base import fetch as fetching
from afterfit._base import images
from afterfit._base.images import BATCHES, IDX_FILES, ImageSet, read, read_idx
from afterfit.papers import _images as of_papers

rng = np.random.default_rng(0)
SET = ImageSet(
    rng.integers(0, 256, (20, 3, 4), dtype=np.uint8),
    np.arange(20, dtype=np.uint8) % 5,
    rng.integers(0, 256, (6, 3, 4), dtype=np.uint8),
    np.arange(6, dtype=np.uint8) % 5,
)
MODEL, DYNAMICS, INIT = af.models.MLP((4,)), af.dynamics.Adam(1e-2, 5), af.inits.He()


def idx(array: np.ndarray) -> bytes:
    """An IDX file, written by its description alone."""
    return struct.pack(f">BBBB{array.ndim}I", 0, 0, 8, array.ndim, *array.shape) + array.tobytes()


def write_idx(folder: Path, of: ImageSet = SET, compress: bool = False) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for name, array in zip(IDX_FILES, of.arrays, strict=True):
        if compress:
            (folder / f"{name}.gz").write_bytes(gzip.compress(idx(array)))
        else:
            (folder / name).write_bytes(idx(array))
    return folder


def write_npz(path: Path, of: ImageSet = SET, **others) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    names = ("x_train", "y_train", "x_test", "y_test")
    np.savez_compressed(path, **(dict(zip(names, of.arrays, strict=True)) | others))
    return path


def write_cifar(folder: Path, records: int = 4) -> dict[str, np.ndarray]:
    """Batches of random records: a label, then all red, all green and all blue pixels, row by row."""
    folder.mkdir(parents=True, exist_ok=True)
    random = np.random.default_rng(1)
    batches = {name: random.integers(0, 256, (records, 3073), dtype=np.uint8) for name in BATCHES}
    for name, batch in batches.items():
        batch[:, 0] %= 10
        batch[0, 0] = 9  # so that there are ten classes
        (folder / name).write_bytes(batch.tobytes())
    return batches


@pytest.fixture(autouse=True)
def home(tmp_path_factory, monkeypatch):
    """A user who has nothing yet, on a machine that has nothing."""
    place = tmp_path_factory.mktemp("home")
    for variable, name in (("XDG_CACHE_HOME", "cache"), ("XDG_CONFIG_HOME", "config")):
        monkeypatch.setenv(variable, str(place / name))
    monkeypatch.delenv(images.VARIABLE, raising=False)
    monkeypatch.setattr(images, "_SYSTEM", place / "none")
    return place


@functools.cache
def fashion() -> Path:
    """Fashion-MNIST as Debian packs it: where its package put it, or unpacked from it."""
    installed = Path("/usr/share/datasets/fashion-mnist")
    if installed.is_dir():
        return installed
    package, unpacked = "dataset-fashion-mnist", Path.home() / ".cache/afterfit-tests/fashion-mnist"
    if not unpacked.is_dir():
        if not (shutil.which("apt-get") and shutil.which("dpkg-deb")):
            pytest.skip(f"no Fashion-MNIST here: Debian's package {package} is not installed, and cannot be")
        unpacked.mkdir(parents=True)
        commands = (["apt-get", "download", package], ["sh", "-c", f"dpkg-deb -x {package}*.deb ."])
        if any(subprocess.run(c, cwd=unpacked, capture_output=True, timeout=120).returncode for c in commands):
            shutil.rmtree(unpacked)
            pytest.skip(f"no Fashion-MNIST here: Debian's package {package} cannot be downloaded")
    return unpacked / "usr/share/datasets/fashion-mnist"


def draw(task: af.tasks.Images, seed: int = 0):
    return task.draw(np.random.default_rng(seed))


def experiment(task: af.tasks.Images) -> af.Experiment:
    return af.Experiment(task=task, model=MODEL, dynamics=DYNAMICS, init=INIT, observations=3)


# ---------------------------------------------------------------------------------------------------- real images


def test_real_images_are_those_that_were_published(monkeypatch):
    monkeypatch.setattr(images, "_SYSTEM", fashion().parent)
    task = af.tasks.Images("fashion-mnist", n=300, n_test=50)
    assert read(fashion()).published == "fashion-mnist"
    assert (task.signature.inputs, task.signature.outputs) == ((784,), (10,))
    data = draw(task)
    with gzip.open(fashion() / "train-images-idx3-ubyte.gz") as file:  # a second reader
        pixels = np.frombuffer(file.read()[16:], np.uint8).reshape(60_000, 784)
    with gzip.open(fashion() / "train-labels-idx1-ubyte.gz") as file:
        labels = file.read()[8:]
    known = {row.tobytes(): label for row, label in zip(pixels, labels, strict=True)}
    drawn = np.round(data.inputs * 255).astype(np.uint8)
    assert [known[row.tobytes()] for row in drawn] == list(data.targets)
    with pytest.raises(SpecError, match="mnist are not on this machine: `afterfit data fetch mnist`"):
        af.tasks.Images("mnist")  # whose files have the same names


def test_a_set_that_everybody_knows_is_looked_for_when_it_is_drawn(monkeypatch):
    for sha256 in images.KNOWN:
        task = af.tasks.Images("fashion-mnist", n=300, flat=False, sha256=sha256)
        assert task.signature.inputs == (28, 28, 1)
        assert af.tasks.Images.from_dict(task.to_dict()) == task
        with pytest.raises(SpecError, match=r"60000 training images.*n=60001"):
            task.replace(n=60_001)
        with pytest.raises(SpecError, match=r"not on this machine.*afterfit data fetch fashion-mnist"):
            draw(task)
        with pytest.raises(SpecError, match="not on this machine"):  # how many there are of some classes is not known
            task.replace(classes=(0, 1))
    monkeypatch.setattr(images, "_SYSTEM", fashion().parent)
    found = af.tasks.Images("fashion-mnist", n=300)
    found._read()
    assert vars(found)["_facts"] == images.KNOWN[found.sha256]
    np.testing.assert_array_equal(draw(found).inputs, draw(af.tasks.Images("fashion-mnist", n=300)).inputs)


def test_a_set_is_read_once_unless_its_files_change(tmp_path):
    folder = write_idx(tmp_path)
    assert read(folder) is read(folder)
    assert not any(array.flags.writeable for array in read(folder).arrays)
    before = read(folder)
    (folder / IDX_FILES[0]).write_bytes(idx(255 - SET.images))
    np.testing.assert_array_equal(read(folder).images, 255 - before.images)


def test_a_net_learns_real_images(monkeypatch):
    monkeypatch.setenv(images.VARIABLE, str(fashion()))
    task = af.tasks.Images("fashion-mnist", n=200, n_test=500, classes=(0, 9), loss_name="logistic")
    run = af.train(task=task, model=MODEL, dynamics=af.dynamics.Adam(1e-2, 200), init=INIT, observations=5)
    assert float(run.curves["test_accuracy"][-1]) > 0.95, "shirts and boots are told apart"


def test_digits_of_scikit_learn_are_read_back(tmp_path):
    digits = pytest.importorskip("sklearn.datasets", reason="no scikit-learn here").load_digits()
    pixels, labels = (15 * digits.images).astype(np.uint8), digits.target.astype(np.uint8)  # of 0 to 16
    of = ImageSet(pixels[:1500], labels[:1500], pixels[1500:], labels[1500:])
    task = af.tasks.Images(write_idx(tmp_path / "digits", of, compress=True), n=1500)
    data = draw(task)
    assert (task.signature.inputs, task.signature.outputs) == ((64,), (10,))
    np.testing.assert_allclose(data.test_inputs, digits.data[1500:] * 15 / 255, rtol=1e-6)
    np.testing.assert_array_equal(data.test_targets, digits.target[1500:])
    run = af.train(
        task=task, model=af.models.MLP((32,)), dynamics=af.dynamics.Adam(1e-2, 200), init=INIT, observations=5
    )
    assert float(run.curves["test_accuracy"][-1]) > 0.85


# -------------------------------------------------------------------------------------------------------- formats


@given(arrays.arrays(np.uint8, arrays.array_shapes(min_dims=0, max_dims=5, max_side=6)), st.booleans())
def test_any_array_of_bytes_goes_through_an_idx_file(tmp_path_factory, array, compress):
    path = tmp_path_factory.getbasetemp() / ("any.gz" if compress else "any")
    path.write_bytes(gzip.compress(idx(array)) if compress else idx(array))
    again = read_idx(path)
    assert (again.shape, again.dtype) == (array.shape, np.uint8)
    np.testing.assert_array_equal(again, array)


@given(st.data())
def test_an_idx_file_cut_anywhere_is_refused_by_its_name(tmp_path_factory, data):
    compress = data.draw(st.booleans())
    content = gzip.compress(idx(SET.images)) if compress else idx(SET.images)
    path = tmp_path_factory.getbasetemp() / ("cut.gz" if compress else "cut")
    path.write_bytes(content[: data.draw(st.integers(0, len(content) - 1))])
    with pytest.raises(SpecError, match=path.name):
        read_idx(path)


@given(st.binary(max_size=200), st.booleans())
def test_random_bytes_are_an_array_or_refused(tmp_path_factory, content, compress):
    path = tmp_path_factory.getbasetemp() / ("random.gz" if compress else "random")
    path.write_bytes(content)
    try:
        found = read_idx(path)
    except SpecError as error:
        said = str(error)
    else:
        said = path.name if found.nbytes < 200 else ""
    assert path.name in said


def test_one_set_is_the_same_in_every_format(tmp_path):
    sources = [
        write_idx(tmp_path / "a"),
        write_idx(tmp_path / "b", compress=True),
        write_npz(tmp_path / "c.npz"),
        write_npz(tmp_path / "d.npz", x_train=SET.images[..., None], x_test=SET.test_images[..., None]),
        write_npz(tmp_path / "e.npz", y_train=SET.labels[:, None].astype(np.int64)),
        write_idx(tmp_path / "f", ImageSet(SET.images[..., None], SET.labels, SET.test_images, SET.test_labels)),
    ]
    first, *others = [experiment(af.tasks.Images(source, n=8)) for source in sources]
    assert {other.id for other in others} == {first.id}
    sums = [hashlib.sha256((tmp_path / "a" / name).read_bytes()).hexdigest() for name in IDX_FILES]
    assert list(read(tmp_path / "c.npz").sums) == sums, "those of `sha256sum`"


def test_cifar_has_its_colours_in_their_places(tmp_path):
    batches = write_cifar(tmp_path)
    task = af.tasks.Images(tmp_path, n=20, flat=False)
    data = draw(task)
    assert (task.signature.inputs, task.signature.outputs) == ((32, 32, 3), (10,))
    record = batches["test_batch.bin"][2]
    np.testing.assert_array_equal(data.test_targets, batches["test_batch.bin"][:, 0])
    for colour in range(3):
        for row, column in ((0, 0), (5, 31), (31, 7)):
            pixel = record[1 + 1024 * colour + 32 * row + column]
            assert data.test_inputs[2, row, column, colour] == np.float32(pixel / 255)
    # A training image is one of a batch, with its label.
    known = {batch[1:].tobytes(): batch[0] for name in BATCHES[:-1] for batch in batches[name]}
    planes = np.round(data.inputs.transpose(0, 3, 1, 2) * 255).astype(np.uint8).reshape(20, -1)
    assert [known[image.tobytes()] for image in planes] == list(data.targets)
    flat = draw(task.replace(flat=True))
    np.testing.assert_array_equal(flat.inputs, data.inputs.reshape(20, -1))


def replaced(name: str, content: bytes | np.ndarray):
    """The IDX files, one of them another."""

    def spoil(folder: Path) -> Path:
        write_idx(folder)
        (folder / name).write_bytes(content if isinstance(content, bytes) else idx(content))
        return folder

    return spoil


def without(name: str):
    def spoil(folder: Path) -> Path:
        (write_idx(folder) / name).unlink()
        return folder

    return spoil


def cifar(name: str, change):
    def spoil(folder: Path) -> Path:
        write_cifar(folder)
        (folder / name).write_bytes(change((folder / name).read_bytes()))
        return folder

    return spoil


def npz_of(content: bytes):
    def spoil(folder: Path) -> Path:
        folder.mkdir()
        (folder / "my.npz").write_bytes(content)
        return folder / "my.npz"

    return spoil


def pickled(folder: Path) -> Path:
    return write_npz(folder / "my.npz", y_test=np.array([Path(), None], dtype=object))


def packed(**arrays) -> bytes:
    file = io.BytesIO()
    np.savez(file, **arrays)
    return file.getvalue()


def packed_by(compression: int) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", compression) as archive, zipfile.ZipFile(io.BytesIO(packed(**ARRAYS))) as plain:
        for name in plain.namelist():
            archive.writestr(name, plain.read(name))
    return file.getvalue()


ARRAYS = dict(zip(("x_train", "y_train", "x_test", "y_test"), SET.arrays, strict=True))
REFUSED = {
    "no IDX": (replaced(IDX_FILES[0], b"a text that is no IDX file"), "not an IDX file"),
    "floats": (replaced(IDX_FILES[0], b"\0\0\x0d\x03" + bytes(50)), "of type 0xd"),
    "cut": (replaced(IDX_FILES[0], idx(SET.images)[:-1]), "cut short: 255 bytes|cut short: 239 bytes"),
    "longer": (replaced(IDX_FILES[2], idx(SET.test_images) + b"x"), "longer than"),
    "huge": (replaced(IDX_FILES[2], b"\0\0\x08\x03" + b"\xff" * 12), "more than images take"),
    "large": (replaced(IDX_FILES[2], b"\0\0\x08\x03" + struct.pack(">3I", 1000, 28, 28)), "cut short"),
    "rank": (replaced(IDX_FILES[0], SET.labels), "holds no images"),
    "empty": (replaced(IDX_FILES[0], SET.images[:0]), "holds no images"),
    "other shape": (replaced(IDX_FILES[2], SET.test_images[:, :2]), "different shapes"),
    "labels": (replaced(IDX_FILES[1], SET.labels[:-1]), r"labels of shape \(19,\) for 20 images"),
    "range": (replaced(IDX_FILES[3], SET.test_labels + np.uint8(3)), "the label 7, but those of training images"),
    "missing": (without(IDX_FILES[3]), "has no t10k-labels-idx1-ubyte"),
    "cifar cut": (cifar(BATCHES[1], lambda content: content[:-5]), "no multiple of 3073"),
    "cifar a record short": (cifar(BATCHES[1], lambda content: content[:-3073]), "cut short: 3 images"),
    "cifar's tests a record short": (cifar(BATCHES[5], lambda content: content[:-3073]), "cut short: 3 images"),
    "cifar label": (cifar(BATCHES[5], lambda content: b"\x0a" + content[1:]), "the label 10"),
    "cifar empty": (cifar(BATCHES[5], lambda content: b""), "no multiple"),
    "npz without": (npz_of(packed(x_train=SET.images)), "has no y_train"),
    "npz packed by lzma": (npz_of(packed_by(zipfile.ZIP_LZMA)), "x_train packed otherwise than NumPy does"),
    "npz no zip": (npz_of(b"PK but no archive"), "damaged"),
    "npz pickle": (npz_of(pickle.dumps([1, 2])), "damaged"),
    "npz with a pickle in it": (pickled, "no .npz file with arrays of numbers"),
    "npz no arrays": (npz_of(packed(x_train=1.5, y_train=1, x_test=1, y_test=1)), "x_train of type float64"),
}


@pytest.mark.parametrize(("spoil", "message"), REFUSED.values(), ids=REFUSED)
def test_a_file_that_is_not_what_it_should_be_is_refused_by_its_name(tmp_path, spoil, message):
    source = spoil(tmp_path / "mine")
    with pytest.raises(SpecError, match=message) as refused:
        af.tasks.Images(source, n=2)
    assert "mine" in str(refused.value)
    assert "\n" not in str(refused.value)


def test_bits_of_a_packed_file_that_fell_over_are_seen(tmp_path):
    path = write_npz(tmp_path / "my.npz")
    content = bytearray(path.read_bytes())
    for place in range(60, len(content) - 400, 7):
        content[place] ^= 0x10
    path.write_bytes(content)
    with pytest.raises(SpecError, match=r"my\.npz"):
        read(path)


def test_a_known_set_with_one_file_damaged_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(images, "_FACTS", ((3, 4, 1), 5, 20, 6))
    monkeypatch.setitem(images.PUBLISHED, "mnist", SET.sums)
    assert images.name_of(write_idx(tmp_path / "whatever")) == "mnist"
    other = SET.images.copy()
    other[3, 1, 1] ^= 1
    write_idx(tmp_path / "whatever", dataclasses.replace(SET, images=other))
    with pytest.raises(SpecError, match=r"train-images-idx3-ubyte is damaged.*`afterfit data fetch mnist`"):
        read(tmp_path / "whatever")


# ------------------------------------------------------------------------------------------------------- the task


def test_images_are_drawn_by_the_seed(tmp_path):
    task = af.tasks.Images(write_idx(tmp_path), n=8, n_test=3)
    first, again, other = draw(task), draw(task), draw(task, 1)
    np.testing.assert_array_equal(first.inputs, again.inputs)
    np.testing.assert_array_equal(first.test_inputs, again.test_inputs)
    assert not np.array_equal(first.inputs, other.inputs)
    known = {image.tobytes(): label for image, label in zip(SET.images, SET.labels, strict=True)}
    pixels = np.round(first.inputs * 255).astype(np.uint8)
    assert [known[image.tobytes()] for image in pixels] == list(first.targets)
    assert len({image.tobytes() for image in pixels}) == 8, "without replacement"
    assert (first.n, first.n_test, len(first.test_targets)) == (8, 3, 3)
    assert first.inputs.dtype == np.float32
    whole = draw(af.tasks.Images(tmp_path, n=20, precision="double"))
    np.testing.assert_array_equal(whole.test_inputs, SET.test_images.reshape(6, 12) / 255)
    np.testing.assert_array_equal(whole.test_targets, SET.test_labels)


@pytest.mark.parametrize("loss_name", ["cross_entropy", "squared", "logistic", "exponential"])
def test_some_classes_are_renumbered_in_their_order(tmp_path, loss_name):
    task = af.tasks.Images(write_idx(tmp_path), n=8, classes=(3, 1), loss_name=loss_name)
    data = draw(task)
    meant = {
        "cross_entropy": {3: 0, 1: 1},
        "squared": {3: [1.0, 0.0], 1: [0.0, 1.0]},
    }.get(loss_name, {3: -1, 1: 1})
    there = [label for label in SET.test_labels if label in meant]
    np.testing.assert_array_equal(data.test_targets, [meant[label] for label in there])
    assert len(data.inputs) == 8, "all that there are"
    assert task.signature.outputs == (() if loss_name in ("logistic", "exponential") else (2,))
    run = af.train(task=task, model=MODEL, dynamics=DYNAMICS, init=INIT, observations=3)
    assert np.isfinite(run.curves["test_loss"].values).all()


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"n": 21}, "20 training images, but n=21"),
        ({"n": 0}, "n must be positive"),
        ({"n_test": 7}, "6 test images, but n_test=7"),
        ({"n_test": 0}, "n_test=0"),
        ({"n": 9, "classes": (0, 1)}, r"8 training images of the classes \(0, 1\), but n=9"),
        ({"classes": (0,)}, "two or more different labels"),
        ({"classes": (0, 0)}, "two or more different labels"),
        ({"classes": (0, 5)}, "0 to 4"),
        ({"loss_name": "logistic"}, "for two classes, and here are 5"),
        ({"loss_name": "hinge"}, "unknown loss_name"),
        ({"generalise": 1.5}, "1.5"),
        ({"sha256": "0" * 64}, "no longer those"),
    ],
)
def test_settings_that_cannot_be_are_refused(tmp_path, settings, message):
    with pytest.raises(SpecError, match=message):
        af.tasks.Images(write_idx(tmp_path), **({"n": 4} | settings))


def test_what_is_needed_is_told_without_drawing(tmp_path):
    task = af.tasks.Images(write_idx(tmp_path), n=8, precision="double")
    data = draw(task)
    assert task.numbers == data.inputs.size + data.test_inputs.size + 5 * (8 + 6)
    assert task.replace(precision="single").numbers < task.numbers


# ------------------------------------------------------------------------------------- identity and reading back


def test_the_name_of_a_run_is_that_of_the_content(tmp_path, monkeypatch):
    here = af.tasks.Images(write_idx(tmp_path / "here"), n=8)
    there = af.tasks.Images(write_npz(tmp_path / "there/other.npz"), n=8)
    monkeypatch.setenv(images.VARIABLE, str(tmp_path / "here"))
    named = af.tasks.Images("here", n=8)
    assert experiment(here).id == experiment(there).id == experiment(named).id
    assert experiment(here.replace(n=7)).id != experiment(here).id
    path = tmp_path / "here" / IDX_FILES[2]
    content, when = bytearray(path.read_bytes()), path.stat()
    content[-1] ^= 1
    path.write_bytes(content)
    os.utime(path, ns=(when.st_atime_ns, when.st_mtime_ns))  # as a copy that keeps the times of the original
    assert experiment(af.tasks.Images(tmp_path / "here", n=8)).id != experiment(there).id
    for use in (lambda: draw(here), lambda: af.Experiment.from_dict(experiment(here).to_dict())):
        with pytest.raises(SpecError, match="no longer those that this task is about"):
            use()


def test_a_run_on_images_is_written_and_read_back(tmp_path, monkeypatch):
    monkeypatch.setenv(images.VARIABLE, str(tmp_path / "data"))
    write_idx(tmp_path / "data/small")
    spec = experiment(af.tasks.Images("small", n=8, classes=(2, 0)))
    run = af.train(**{name: getattr(spec, name) for name in ("task", "model", "dynamics", "init")}, observations=3)
    run.save(tmp_path / "run")
    loaded = af.load(tmp_path / "run")
    assert loaded.experiment.id == spec.id == run.experiment.id
    (tmp_path / "my.toml").write_text(spec.to_toml())
    assert af.Experiment.from_toml(tmp_path / "my.toml") == spec
    again = pickle.loads(pickle.dumps(spec))  # noqa: S301  as to a helper
    assert again.id == spec.id
    np.testing.assert_array_equal(draw(again.task).inputs, draw(spec.task).inputs)
    # Another machine has the files elsewhere, and none by this name.
    moved = json.loads(json.dumps(spec.to_dict()))
    moved["task"]["source"] = "/nowhere/small"
    assert af.Experiment.from_dict(moved).id == spec.id
    (tmp_path / "data/small" / IDX_FILES[3]).unlink()
    with pytest.raises(SpecError, match="has no t10k-labels"):
        af.Experiment.from_dict(spec.to_dict())
    shutil.rmtree(tmp_path / "data/small")
    with pytest.raises(SpecError, match=r"no images called 'small'.*`afterfit data path DIR`"):
        af.Experiment.from_dict(spec.to_dict())
    assert af.load(tmp_path / "run").verdict_or_reason() == run.verdict_or_reason(), "curves need no images"


def test_a_run_goes_on_where_its_images_are_elsewhere(tmp_path):
    parts = {"model": MODEL, "observations": 3}
    task = af.tasks.Images(write_idx(tmp_path / "here"), n=8)
    af.train(task=task, dynamics=DYNAMICS, init=INIT, **parts).save(tmp_path / "run")
    (tmp_path / "here").rename(tmp_path / "there")
    moved, more = af.tasks.Images(tmp_path / "there", n=8), af.dynamics.Adam(1e-2, 10)
    continued = af.train(task=moved, dynamics=more, start=af.load(tmp_path / "run"), **parts)
    whole = af.train(task=moved, dynamics=af.dynamics.Adam(1e-2, 15), init=INIT, **parts)
    np.testing.assert_allclose(continued.curves["test_loss"][-1], whole.curves["test_loss"][-1], rtol=1e-4)
    with pytest.raises(SpecError, match="goes on with its own task"):
        af.train(task=moved.replace(n=7), dynamics=more, start=af.load(tmp_path / "run"), **parts)


def test_a_store_has_the_run_of_images_that_were_moved(tmp_path):
    spec = experiment(af.tasks.Images(write_npz(tmp_path / "my.npz"), n=8))
    over = {"dynamics.lr": [1e-3, 1e-2], "task.n": [8, 10]}
    sweep = af.sweep(spec, over=over, store=tmp_path / "store").run()
    assert sweep.dataset["final_test_accuracy"].size == 4
    (tmp_path / "my.npz").rename(tmp_path / "moved.npz")
    same = experiment(af.tasks.Images(tmp_path / "moved.npz", n=8)).set({"dynamics.lr": 1e-3})
    assert same.id in af.Store(tmp_path / "store")


def test_images_that_are_gone_are_said_to_be_and_how_to_have_them(tmp_path, monkeypatch):
    """And not that another set, the only one there, has changed."""
    task = af.tasks.Images(write_npz(tmp_path / "here.npz"), n=8)
    (tmp_path / "here.npz").unlink()
    write_idx(tmp_path / "others" / "another", dataclasses.replace(SET, labels=SET.labels[::-1].copy()))
    monkeypatch.setenv("AFTERFIT_DATA", str(tmp_path / "others"))
    with pytest.raises(SpecError, match=r"there are no images at .*here\.npz: `afterfit data path DIR`"):
        draw(task)
    known = next(sha for sha, name in images._NAMES.items() if name == "mnist")
    with pytest.raises(SpecError, match="`afterfit data fetch mnist`"):
        images.find(str(tmp_path / "here.npz"), known)


def test_a_set_with_the_test_images_of_another_is_one_of_its_own(tmp_path, monkeypatch):
    """Such as one with noise in its labels; only of four files one that differs is damage."""
    noisy = dataclasses.replace(SET, labels=SET.labels[::-1].copy())
    monkeypatch.setattr(images, "_FACTS", ((3, 4, 1), 5, 20, 6))
    monkeypatch.setitem(images.PUBLISHED, "mnist", SET.sums)
    assert read(write_npz(tmp_path / "noise.npz", noisy)).published is None
    fewer = dataclasses.replace(SET, images=SET.images[:9], labels=SET.labels[:9])
    assert len(read(write_idx(tmp_path / "fewer", fewer)).images) == 9
    with pytest.raises(SpecError, match="train-labels-idx1-ubyte is damaged: the other files are those of mnist"):
        read(write_idx(tmp_path / "damaged", noisy))


def test_a_packed_set_that_everybody_knows_has_its_name_whatever_its_file_is_called(tmp_path, monkeypatch):
    monkeypatch.setenv("AFTERFIT_DATA", str(tmp_path))
    other = dataclasses.replace(SET, test_labels=SET.test_labels[::-1].copy())
    write_npz(tmp_path / "clothes.npz"), write_npz(tmp_path / "others.npz", other)
    monkeypatch.setitem(images.PUBLISHED, "fashion-mnist", SET.sums)
    assert [name for name, _ in images.known_sets()] == ["fashion-mnist", "others"]
    assert af.tasks.Images("fashion-mnist", n=8).sha256 == SET.sha256


def test_a_folder_whose_images_cannot_be_read_is_not_remembered(tmp_path):
    write_npz(tmp_path / "bad" / "cut.npz")
    content = (tmp_path / "bad" / "cut.npz").read_bytes()
    (tmp_path / "bad" / "cut.npz").write_bytes(content[: len(content) // 2])
    for quiet in ([], ["--quiet"]):
        result = call("data", "path", str(tmp_path / "bad"), *quiet)
        assert result.exit_code == 2
        assert "holds no images that can be read" in result.output
        assert "cut.npz" in result.output
    assert images._remembered_places() == []


def test_a_set_of_that_name_is_not_taken_for_the_papers(tmp_path, monkeypatch):
    monkeypatch.setenv("AFTERFIT_DATA", str(tmp_path))
    assert not of_papers.is_here("mnist")
    assert of_papers.sets_here() == ""
    write_idx(tmp_path / "mnist")
    with pytest.raises(SpecError, match="no longer those that this task is about"):
        of_papers.images("mnist", "paper", n=8)
    monkeypatch.setitem(of_papers._OF_PAPERS, "mnist", SET.sha256)
    assert of_papers.sets_here() == "mnist"
    assert of_papers.images("mnist", "paper", n=8).sha256 == SET.sha256


def test_a_sweep_has_the_same_name_wherever_its_images_are(tmp_path):
    here, there = (af.tasks.Images(write_npz(tmp_path / f"{name}.npz"), n=8) for name in ("here", "there"))
    store = tmp_path / "runs"
    one, other = (af.sweep(experiment(task), {"dynamics.lr": (0.1, 0.2)}, store=store) for task in (here, there))
    assert one.spec.task.source != other.spec.task.source
    assert one.id == other.id
    assert one.id != af.sweep(experiment(here.replace(n=9)), {"dynamics.lr": (0.1, 0.2)}, store=store).id


def test_another_source_has_other_images(tmp_path, monkeypatch):
    other = dataclasses.replace(SET, labels=SET.labels[::-1].copy())
    write_idx(tmp_path / "one")
    write_idx(tmp_path / "two", other)
    monkeypatch.setenv(images.VARIABLE, str(tmp_path))
    spec = experiment(af.tasks.Images("one", n=8))
    changed = spec.set({"task.source": "two", "task.n": 7})
    assert (changed.task.sha256, changed.task.n) == (other.sha256, 7)
    assert changed.id != spec.id
    assert spec.set({"task.source": str(tmp_path / "one")}).id == spec.id


class OneFilter(af.models.Model):
    """A convolution, the largest output of each filter, and no more."""

    def parameters(self, signature):
        channels, (classes,) = signature.inputs[-1], signature.outputs
        return {"filters": af.models.Parameter((2, 2, channels, classes))}

    def __call__(self, params, x):
        numbers = ("NHWC", "HWIO", "NHWC")
        maps = jax.lax.conv_general_dilated(x, params["filters"], (1, 1), "VALID", dimension_numbers=numbers)
        return maps.max((1, 2))

    @property
    def degree(self):
        return 1


def test_a_convolution_is_shown_images_in_their_shape(tmp_path):
    task = af.tasks.Images(write_idx(tmp_path), n=8, flat=False)
    assert task.signature.inputs == (3, 4, 1)
    run = af.train(task=task, model=OneFilter(), dynamics=DYNAMICS, init=af.inits.Gaussian(1.0), observations=3)
    assert np.isfinite(run.curves["test_loss"].values).all()


def test_of_two_copies_the_one_that_is_meant_is_taken(tmp_path, monkeypatch):
    other = dataclasses.replace(SET, labels=SET.labels[::-1].copy())
    write_idx(tmp_path / "one/small", other)
    write_idx(tmp_path / "two/small")
    monkeypatch.setenv(images.VARIABLE, f"{tmp_path / 'one'}:{tmp_path / 'two'}")
    assert af.tasks.Images("small", n=8).sha256 == other.sha256
    assert af.tasks.Images("small", n=8, sha256=SET.sha256).sha256 == SET.sha256


# ------------------------------------------------------------------------------------------------ `afterfit data`


def test_where_images_are_missing_the_two_ways_are_said(tmp_path, monkeypatch):
    for name in images.FETCHABLE:
        with pytest.raises(SpecError, match=f"`afterfit data fetch {name}` downloads them, `afterfit data path DIR`"):
            af.tasks.Images(name)
    with pytest.raises(SpecError, match=r"no images called 'mnits': did you mean 'mnist'\? .*a folder is ./mnits"):
        af.tasks.Images("mnits")
    with pytest.raises(SpecError, match="there is no folder"):
        af.tasks.Images("./nothing")
    with pytest.raises(SpecError, match="has no train-images-idx3-ubyte"):
        af.tasks.Images(str(tmp_path))
    monkeypatch.setenv(images.VARIABLE, "/no/such/place")
    with pytest.raises(SpecError, match="AFTERFIT_DATA in the environment names /no/such/place"):
        af.tasks.Images("mnist")


def test_a_folder_is_remembered_by_its_whole_name(tmp_path):
    place = tmp_path / "crab\rdir\u2028"
    write_npz(place / "mine.npz")
    assert call("data", "path", str(place)).exit_code == 0
    assert images._remembered_places() == [place]


def test_a_local_copy_is_remembered(tmp_path, monkeypatch):
    write_idx(tmp_path / "data/FashionMNIST/raw")  # as torchvision has it
    write_npz(tmp_path / "data/mine.npz")
    write_cifar(tmp_path / "data/cifar-10-batches-bin")
    result = call("data", "path", str(tmp_path / "data"))
    assert result.exit_code == 0, result.output
    assert "fashion-mnist: 20 + 6 images of 3×4, 5 classes" in result.output
    assert "not the published one" in result.output
    assert "cifar10: 20 + 4 images of 32×32×3, 10 classes" in result.output
    for name in ("fashion-mnist", "mine", "cifar10"):
        assert af.tasks.Images(name, n=5).source == name
    listed = call("data", "ls", "--quiet").stdout.splitlines()
    assert [line.split("\t")[0] for line in listed] == ["mine", "cifar10", "fashion-mnist"]
    assert call("data").output == call("data", "ls").output
    assert "mnist: not here. `afterfit data fetch mnist` downloads it." in call("data").output
    for words, message in (
        (["path", str(tmp_path / "none")], "is no folder"),
        (["path", str(tmp_path / "data" / "..")], None),
        (["fetch", "minst"], "did you mean 'mnist'?"),
    ):
        result = call("data", *words)
        assert result.exit_code == (2 if message else 0)
        assert message is None or message in result.output
    (tmp_path / "empty").mkdir()
    assert "holds no images" in call("data", "path", str(tmp_path / "empty")).output
    write_idx(tmp_path / "data/FashionMNIST/raw")
    (tmp_path / "data/FashionMNIST/raw" / IDX_FILES[0]).write_bytes(b"no")
    listed = call("data", "ls")  # the others are listed all the same
    assert "is not an IDX file" in listed.output
    assert "mine: 20 + 6" in listed.output


# -------------------------------------------------------------------------------------------------------- fetching


class Mirror(http.server.BaseHTTPRequestHandler):
    """A server of files: `/good/x` has them, `/cut/x` stops half-way, `/slow/x` waits there, `/other/x` sends others.

    All else is missing.
    """

    content: dict[str, bytes] = {}  # noqa: RUF012
    asked: list[str] = []  # noqa: RUF012
    waiting = threading.Event()

    def do_GET(self):
        self.asked.append(self.path)
        _, kind, name = self.path.split("/", 2)
        if kind not in ("good", "cut", "slow", "other") or name not in self.content:
            self.send_error(404)
            return
        content = self.content[name]
        self.send_response(200)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        if kind == "other":
            content = bytes(len(content))
        self.wfile.write(content[: len(content) // 2] if kind in ("cut", "slow") else content)
        if kind == "slow":
            self.waiting.set()
            time.sleep(AT_ONCE)

    def log_message(self, *_):
        pass


@pytest.fixture
def mirror(tmp_path):
    """The address of such a server on this machine, with a small set of images."""
    pytest.importorskip("pooch", reason="no Pooch here")
    write_idx(tmp_path / "published", compress=True)
    Mirror.content = {path.name: path.read_bytes() for path in (tmp_path / "published").iterdir()}
    Mirror.asked = []
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Mirror)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}/"
    server.shutdown()
    server.server_close()
    thread.join()


def offered(monkeypatch, name: str, address: str, *kinds: str) -> None:
    """Let `name` be had from such mirrors, with the checksums of what the server has."""
    files = {file: f"md5:{hashlib.md5(content).hexdigest()}" for file, content in sorted(Mirror.content.items())}
    remote = fetching.Remote(files, tuple(f"{address}{kind}/" for kind in kinds))
    monkeypatch.setitem(fetching.REMOTE, name, remote)


def left_over(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


@pytest.mark.parametrize(
    ("bad", "reason"),
    [("missing", "it answered 404"), ("other", "what it sent has another checksum"), ("cut", "the connection was cut")],
)
def test_the_next_mirror_is_asked(monkeypatch, mirror, bad, reason):
    offered(monkeypatch, "mnist", mirror, bad, "good")
    result = call("data", "fetch", "mnist")
    assert result.exit_code == 0, result.output
    assert f"could not be had from {mirror}{bad}/ ({reason}" in result.output
    assert "mnist: 20 + 6 images" in result.output
    assert left_over(images.fetched("mnist")) == sorted(Mirror.content)
    assert af.tasks.Images("mnist", n=8).sha256 == SET.sha256


@pytest.mark.parametrize("bad", ["missing", "other", "cut"])
def test_what_cannot_be_had_is_said_and_nothing_half_is_left(monkeypatch, mirror, bad):
    offered(monkeypatch, "mnist", mirror, bad, bad)
    result = call("data", "fetch", "mnist", "--quiet")
    assert result.exit_code == 2
    assert "could not be downloaded" in result.output
    assert "`afterfit data path DIR`" in result.output
    assert left_over(images.fetched("mnist")) == []
    with pytest.raises(SpecError, match="`afterfit data fetch mnist`"):
        af.tasks.Images("mnist")


def test_a_mirror_that_is_not_there_is_passed_over(monkeypatch, mirror):
    offered(monkeypatch, "mnist", mirror, "good")
    remote = dataclasses.replace(fetching.REMOTE["mnist"], mirrors=("http://127.0.0.1:9/", f"{mirror}good/"))
    monkeypatch.setitem(fetching.REMOTE, "mnist", remote)
    result = call("data", "fetch", "mnist", "--quiet")
    assert result.exit_code == 0, result.output
    assert "it cannot be reached" in result.output
    assert result.stdout.strip() == str(images.fetched("mnist"))


def test_fetching_goes_on_where_it_stopped(monkeypatch, mirror):
    offered(monkeypatch, "mnist", mirror, "good")
    last = sorted(Mirror.content)[-1]
    content = Mirror.content.pop(last)
    assert call("data", "fetch", "mnist").exit_code == 2
    Mirror.content[last] = content
    there, Mirror.asked = left_over(images.fetched("mnist")), []
    assert len(there) == 3
    assert call("data", "fetch", "mnist").exit_code == 0
    assert Mirror.asked == [f"/good/{last}"], "what was there is kept"
    (images.fetched("mnist") / last).write_bytes(b"spoiled since")
    assert call("data", "fetch", "mnist").exit_code == 0, "and what is not whole is fetched again"
    assert af.tasks.Images("mnist", n=8).sha256 == SET.sha256
    monkeypatch.setitem(sys.modules, "pooch", None)
    assert call("data", "fetch", "mnist").exit_code == 0, "for which nothing is needed where all is there"


def test_ctrl_c_ends_a_download_and_leaves_nothing_half(monkeypatch, mirror, ctrl_c):
    offered(monkeypatch, "mnist", mirror, "slow")
    Mirror.waiting.clear()

    def interrupt():
        Mirror.waiting.wait()
        os.kill(os.getpid(), signal.SIGINT)

    threading.Thread(target=interrupt, daemon=True).start()
    began = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        fetching.fetch("mnist", pytest.fail, False)
    assert time.monotonic() - began < AT_ONCE
    assert left_over(images.fetched("mnist")) == []
    offered(monkeypatch, "mnist", mirror, "good")
    assert call("data", "fetch", "mnist").exit_code == 0


def test_how_far_a_download_is_can_be_seen(monkeypatch, mirror):
    offered(monkeypatch, "mnist", mirror, "good")
    shares = []
    fetching.fetch("mnist", pytest.fail, shares.append)
    assert shares.count(1.0) >= len(Mirror.content)
    assert all(0 < share <= 1 for share in shares)


def test_without_pooch_the_other_way_is_said(monkeypatch):
    monkeypatch.setitem(sys.modules, "pooch", None)
    result = call("data", "fetch", "mnist")
    assert result.exit_code == 2
    assert "pip install 'afterfit[data]'" in result.output
    assert "`afterfit data path DIR`" in result.output


def test_the_batches_are_taken_out_of_their_archive(tmp_path, monkeypatch, mirror):
    batches = write_cifar(tmp_path / "cifar-10-batches-bin")
    (tmp_path / "cifar-10-batches-bin" / "readme.html").write_text("more than is wanted")
    with tarfile.open(tmp_path / "cifar.tar.gz", "w:gz") as archive:
        archive.add(tmp_path / "cifar-10-batches-bin", "cifar-10-batches-bin")
    Mirror.content = {"cifar.tar.gz": (tmp_path / "cifar.tar.gz").read_bytes()}
    offered(monkeypatch, "cifar10", mirror, "good")
    sums = {name: hashlib.sha256(batch.tobytes()).hexdigest() for name, batch in batches.items()}
    monkeypatch.setattr(fetching, "CIFAR_SUMS", sums)
    for _ in range(2):
        assert call("data", "fetch", "cifar10").exit_code == 0
        assert left_over(images.fetched("cifar10")) == sorted(BATCHES)
    assert Mirror.asked == ["/good/cifar.tar.gz"], "once"
    assert af.tasks.Images("cifar10", n=20).sha256 == read(tmp_path / "cifar-10-batches-bin").sha256


def test_what_is_fetched_has_a_checksum_and_several_mirrors():
    assert set(fetching.REMOTE) == set(images.FETCHABLE)
    for remote in fetching.REMOTE.values():
        assert len(remote.mirrors) >= 2
        for known in remote.files.values():
            kind, digits = known.split(":")
            assert len(digits) == 2 * hashlib.new(kind).digest_size
