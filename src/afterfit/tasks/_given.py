"""Tasks from data that exist already: the user's arrays, and images in files."""

from __future__ import annotations

import gzip
import math
import zlib
from pathlib import Path
from typing import Any, ClassVar

import equinox as eqx
import numpy as np

from afterfit._base.definitions import Mapped, digest_of_arrays, held, is_mapped
from afterfit._base.errors import SpecError, require
from afterfit._base.spec import later
from afterfit._diagnose.thresholds import Criteria
from afterfit.losses import CrossEntropy, Exponential, Logistic, Loss, Squared
from afterfit.models._inputs import File, OnDisk, Signature, as_classes, as_mapped, as_numbers
from afterfit.tasks._base import CLASS_LOSSES, Data, Task, check_choice, check_positive, one_hot

__all__ = ["Arrays", "Images"]

_ARRAYS = ("X", "y", "X_test", "y_test")
_LOSSES = {
    "squared": Squared,
    "logistic": Logistic,
    "exponential": Exponential,
    "cross_entropy": CrossEntropy,
}


class Arrays(Task):
    """A task from the user's own arrays, one row an example.

    Arrays are whatever NumPy can read (lists, arrays of NumPy, JAX, pandas and xarray, tensors of PyTorch), of finite
    real numbers. Whole numbers become floating; a function that looks symbols up begins with `x.astype(int)`.

    Inputs that do not fit into memory are given as a file that is mapped for reading,
    `np.load("X.npy", mmap_mode="r")`. They are not copied: mini-batches are read from the file in the order of the
    epoch, and what is observed of all of them is computed some thousand at a time. They may be in any precision, or
    bytes. An optimiser can train on them; flows and theory, which need all at once, refuse. Making the task reads the
    file once, and so does naming its runs.

    `loss_name` is `"squared"` (targets are numbers), `"logistic"` or `"exponential"` (targets ±1), or
    `"cross_entropy"` (targets are class numbers from 0); `reduction` its factor. `fit` and `generalise` are the
    levels of the training and test metric that count as fitted and generalised.

    `metric_name` is what that metric is: `"error"` (of a squared loss), `"accuracy"` (of the others), or `"loss"`. A
    squared loss can be judged by its `"accuracy"`: targets are ±1 (one output, whose sign counts), class numbers from 0
    (one output a class, compared with 1 for the class and 0 for the others), or rows with one number a class.
    PyTorch's `MSELoss` averages over the classes, too: its step size is that of `"mean"` times their number.

    ```python
    task = af.tasks.Arrays(X, y, X_test, y_test, loss_name="squared")
    omnigrok = af.tasks.Arrays(X, digits, X_test, digits_test, loss_name="squared", metric_name="accuracy")
    ```
    """

    in_python_only: ClassVar[bool] = True
    meaning: ClassVar[int] = 2  # 1 did not tell arrays of different types apart

    X: Any
    y: Any
    X_test: Any
    y_test: Any
    loss_name: str = "squared"
    reduction: str = "mean"
    fit: float | None = None
    generalise: float | None = None
    metric_name: str | None = later(None)

    def __post_init__(self):
        for name in _ARRAYS:  # copies of one's own: what the user does to his arrays later changes nothing here
            value = getattr(self, name)
            inputs_on_disk = is_mapped(value) and name in ("X", "X_test")
            kept = as_mapped(value, name) if inputs_on_disk else held(np.array(as_numbers(value, name)))
            if name in ("y", "y_test") and (self.loss_name != "squared" or self.metric_name == "accuracy"):
                kept = _without_column(kept)
            object.__setattr__(self, name, kept)
        object.__setattr__(self, "_files", self._files_now())
        super().__post_init__()

    def __getstate__(self) -> dict[str, Any]:
        """For another process, or a file: of arrays that are mapped, where they are."""
        return {name: Mapped.of(part) if is_mapped(part) else part for name, part in vars(self).items()}

    def __setstate__(self, state: dict[str, Any]) -> None:
        for name, part in state.items():
            object.__setattr__(self, name, part.opened() if isinstance(part, Mapped) else part)

    def _files_now(self) -> list[tuple[int, int]]:
        """When each of the files that it is mapped from was last written to, and how long it is."""
        files = [Path(str(array.filename)).stat() for array in (self.X, self.X_test) if is_mapped(array)]
        return [(file.st_mtime_ns, file.st_size) for file in files]

    def _check_files(self) -> None:
        """Refuse files that were written to since this task was made, unless the same numbers are in them."""
        if vars(self)["_files"] == (now := self._files_now()):
            return
        require(
            vars(self).get("_sha256") == digest_of_arrays(getattr(self, name) for name in _ARRAYS),
            f"the file {(self.X if is_mapped(self.X) else self.X_test).filename} was written to since this task was "
            "made of it: make the task anew.",
        )
        object.__setattr__(self, "_files", now)

    def __check_init__(self):
        check_choice("loss_name", self.loss_name, tuple(_LOSSES))
        Squared(self.reduction)  # refuses an unknown reduction
        if self.metric_name is not None:
            check_choice("metric_name", self.metric_name, ("error", "accuracy", "loss"))
        require(
            self.metric != "error" or self.loss_name == "squared",
            f"an error is that of a squared loss, not of {self.loss_name}: choose metric_name 'accuracy' or 'loss'.",
        )
        self.criteria.at()  # are they possible?
        shapes = {name: np.shape(getattr(self, name)) for name in _ARRAYS}
        said = ", ".join(f"{name} {shape}" for name, shape in shapes.items())
        for inputs, targets in (("X", "y"), ("X_test", "y_test")):
            require(
                len(shapes[inputs]) >= 2 and shapes[inputs][0] > 0,
                f"{inputs} needs one row per example and at least one example, got {said}.",
            )
            require(
                shapes[targets][:1] == shapes[inputs][:1],
                f"{inputs} and {targets} must have the same number of rows, got {said}.",
            )
        require(
            shapes["X"][1:] == shapes["X_test"][1:] and shapes["y"][1:] == shapes["y_test"][1:],
            f"training and test examples must have the same shape, got {said}.",
        )
        y = np.concatenate([np.ravel(self.y), np.ravel(self.y_test)])
        if self.loss_name in ("logistic", "exponential"):
            require(
                set(np.unique(y)) <= {-1, 1},
                f"{self.loss_name} loss wants labels -1 and 1, got {np.unique(y)[:5]}.",
            )
        if self.loss_name == "cross_entropy":
            require(len(shapes["y"]) == 1, f"cross_entropy wants class numbers, one an example, got {said}.")
        if self.loss_name == "squared" and self.metric == "accuracy":
            require(len(shapes["y"]) <= 2, f"accuracy wants labels, or rows with one number a class, got {said}.")
        if self._classes:
            as_classes(y, "y")

    @property
    def _classes(self) -> bool:
        """Whether the targets are class numbers."""
        if self.loss_name != "squared":
            return self.loss_name == "cross_entropy"
        signs = all(np.isin(y, (-1, 1)).all() for y in (self.y, self.y_test))
        return self.metric == "accuracy" and np.ndim(self.y) == 1 and not signs

    @property
    def metric(self) -> str:
        return self.metric_name or super().metric

    @property
    def signature(self) -> Signature:
        if self._classes:
            return Signature(np.shape(self.X)[1:], (int(max(np.max(self.y), np.max(self.y_test))) + 1,))
        return Signature(np.shape(self.X)[1:], np.shape(self.y)[1:])

    @property
    def numbers(self) -> int:
        # Those that are there already, unless they stay on disk, and the outputs that are compared with them.
        outputs = math.prod(self.signature.outputs)
        arrays = [array for array in (getattr(self, name) for name in _ARRAYS) if not is_mapped(array)]
        return sum(array.size for array in arrays) + (len(self.X) + len(self.X_test)) * outputs

    @property
    def loss(self) -> Loss:
        return _LOSSES[self.loss_name](self.reduction)

    @property
    def criteria(self) -> Criteria:
        if self.metric == "accuracy":
            default, make = (0.99, 0.95), Criteria.accuracies
        else:
            default, make = (1e-2, 1e-1), Criteria.errors
        given = (self.fit, self.generalise)
        return make(*(usual if value is None else value for value, usual in zip(given, default, strict=True)))

    def draw(self, rng: np.random.Generator) -> Data:
        self._check_files()
        y, y_test = self.y, self.y_test
        if self._classes:
            y, y_test = y.astype(int), y_test.astype(int)
            if self.loss_name == "squared":
                y, y_test = (one_hot(classes, *self.signature.outputs) for classes in (y, y_test))
        real = np.float64 if self.precision == "double" else np.float32
        X, X_test = (OnDisk(File(rows, real)) if is_mapped(rows) else rows for rows in (self.X, self.X_test))
        return Data(X, y, X_test, y_test, n=len(self.X), n_test=len(self.X_test))

    def to_dict(self) -> dict[str, Any]:
        """Shapes and a digest stand for the arrays, which a specification does not hold."""
        shapes = {name: list(np.shape(getattr(self, name))) for name in _ARRAYS}
        if "_sha256" not in vars(self):  # once: nobody can write to them, or it is seen
            self._check_files()
            object.__setattr__(self, "_sha256", digest_of_arrays(getattr(self, name) for name in _ARRAYS))
        others = self._settings(but=_ARRAYS)
        return {**self._said_of_it(), "shapes": shapes, "sha256": vars(self)["_sha256"], **others}


def _without_column(labels: np.ndarray) -> np.ndarray:
    """Labels of shape (n,), also where they are a column (n, 1): one an example, and not one number a class."""
    return held(labels[:, 0]) if labels.ndim == 2 and labels.shape[1] == 1 else labels


class Images(Task):
    """Image classification from files in MNIST's format (Notsawo et al. 2025, App. H.3.4).

    `folder` holds the four usual files (`train-images-idx3-ubyte`, `train-labels-idx1-ubyte`, `t10k-…`), plain
    or gzipped. n training images are drawn from the first pair, all of the second are tested. Pixels are
    scaled to [0, 1]. Nothing is downloaded. `sha256` tells what is in the files: other files are another task.
    `loss_name` is `"cross_entropy"`, or `"squared"` with one-hot targets (Omnigrok, Liu et al. 2023); accuracy judges
    both.
    """

    folder: str
    n: int = 1000
    sha256: str = ""  # of what is in the files; found out where it is not given
    precision: str = eqx.field(default="single", kw_only=True)
    loss_name: str = later("cross_entropy")

    def __post_init__(self):
        super().__post_init__()
        _, found = self._read_files()
        object.__setattr__(self, "sha256", found)

    def __check_init__(self):
        check_positive(n=self.n)
        check_choice("loss_name", self.loss_name, tuple(CLASS_LOSSES))
        available = _idx_shape(_idx_path(self.folder, "train-images-idx3-ubyte"))[0]
        require(
            self.n <= available,
            f"{self.folder} has {available} training images, but n={self.n} were asked for.",
        )

    def _read_files(self) -> tuple[list[np.ndarray], str]:
        """What is in the files, and its digest: they may have been replaced since this task was made."""
        arrays = [read_idx(_idx_path(self.folder, name)) for name in _MNIST]
        found = digest_of_arrays(arrays)
        require(
            self.sha256 in ("", found),
            f"the files in {self.folder} are no longer those that this task is about: make it anew, without sha256.",
        )
        return arrays, found

    @property
    def signature(self) -> Signature:
        _, height, width = _idx_shape(_idx_path(self.folder, "train-images-idx3-ubyte"))
        labels = read_idx(_idx_path(self.folder, "train-labels-idx1-ubyte"))
        return Signature((height * width,), (int(labels.max()) + 1,))

    @property
    def loss(self) -> Loss:
        return CLASS_LOSSES[self.loss_name]("mean")

    @property
    def metric(self) -> str:
        return "accuracy"

    @property
    def criteria(self) -> Criteria:
        return Criteria.accuracies(generalise=0.85)

    def draw(self, rng: np.random.Generator) -> Data:
        (X, y, X_test, y_test), _ = self._read_files()
        chosen = rng.choice(len(X), self.n, replace=False)
        X, X_test = (images.reshape(len(images), -1) / 255 for images in (X[chosen], X_test))
        y, y_test = y[chosen].astype(int), y_test.astype(int)
        if self.loss_name == "squared":
            y, y_test = (one_hot(classes, *self.signature.outputs) for classes in (y, y_test))
        return Data(X, y, X_test, y_test, n=self.n, n_test=len(X_test))


_MNIST = (
    "train-images-idx3-ubyte",
    "train-labels-idx1-ubyte",
    "t10k-images-idx3-ubyte",
    "t10k-labels-idx1-ubyte",
)


def _idx_path(folder: str, name: str) -> Path:
    for path in (Path(folder) / name, Path(folder) / f"{name}.gz"):
        if path.is_file():
            return path
    raise SpecError(f"{folder} has no {name} (nor {name}.gz): put MNIST's four files there.")


def _idx_shape(path: Path) -> tuple[int, ...]:
    """The shape in the header of an IDX file: two zero bytes, the type (8: unsigned byte), the rank, the sizes."""
    magic = _read(path, 4)
    require(len(magic) == 4 and magic[:3] == b"\x00\x00\x08", f"{path.name} is not an IDX file of bytes.")
    rank = magic[3]
    header = _read(path, 4 + 4 * rank)[4:]
    require(len(header) == 4 * rank, f"{path.name} is cut short: its header is not complete.")
    return tuple(int.from_bytes(header[4 * k : 4 * k + 4], "big") for k in range(rank))


def read_idx(path: Path) -> np.ndarray:
    """The array in an IDX file, the format of MNIST."""
    shape = _idx_shape(path)
    content = np.frombuffer(_read(path)[4 + 4 * len(shape) :], dtype=np.uint8)
    require(content.size == np.prod(shape), f"{path.name} is cut short: {content.size} bytes for shape {shape}.")
    return content.reshape(shape)


def _read(path: Path, count: int = -1) -> bytes:
    """The first `count` bytes of a file, or all of them, unzipped."""
    try:
        with gzip.open(path, "rb") if path.suffix == ".gz" else path.open("rb") as file:
            return file.read(count)
    except (EOFError, gzip.BadGzipFile, zlib.error):
        raise SpecError(f"{path.name} is cut short or damaged: it cannot be unzipped.") from None
