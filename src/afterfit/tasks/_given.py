"""Tasks from data that exist already: the user's arrays, and images in files."""

from __future__ import annotations

import math
import os
from pathlib import Path
from typing import Any, ClassVar, Self

import equinox as eqx
import numpy as np

from afterfit._base.definitions import Mapped, digest_of_arrays, held, is_mapped
from afterfit._base.errors import require
from afterfit._base.images import KNOWN, ImageSet, find, is_path
from afterfit._base.spec import later, place
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
    """Classification of images in files: MNIST, Fashion-MNIST, CIFAR-10, or a set of one's own.

    `source` is the name of a set, `"mnist"`, `"fashion-mnist"` or `"cifar10"`, which is looked for where
    `afterfit data` says; or a folder, `"./my-images"`, with MNIST's four IDX files, plain or gzipped, or the six of
    CIFAR-10's binary version; or an `.npz` file with `x_train`, `y_train`, `x_test` and `y_test`. Nothing is downloaded
    but by `afterfit data fetch`.

    n training images are drawn by the experiment's seed, and `n_test` test images, or all of them in their order.
    `classes` are the labels to choose among, renumbered from 0 as they are listed; all where none are given. Pixels are
    scaled to [0, 1]. An image is one row; with `flat=False` it has its shape, (height, width, channels).
    `loss_name` is `"cross_entropy"`, or `"squared"` with one-hot targets (Omnigrok, Liu et al. 2023), or of two classes
    `"logistic"` or `"exponential"` with targets −1 (the first) and 1. Accuracy judges all. `generalise` is the test
    accuracy that counts as generalised.

    Images are known by what is in the files, `sha256`, and not by where those are: the same files have the same runs on
    every machine, and others under the same name have others. It is found out where it is not given; where it is, other
    files are refused. With that of MNIST or Fashion-MNIST given, files are looked for when a run begins.

    ```python
    task = af.tasks.Images("mnist", n=1000)  # Notsawo et al. 2025, App. H.3.4
    task = af.tasks.Images("mnist", n=60_000)  # Woodworth et al. 2020, Fig. 6c
    task = af.tasks.Images("fashion-mnist", n=200, classes=(0, 9), loss_name="logistic")
    ```
    """

    meaning: ClassVar[int] = 2  # 1 was told by the folder as well

    source: str = place()
    n: int = 1000
    n_test: int | None = None
    classes: tuple[int, ...] | None = None
    flat: bool = True
    loss_name: str = "cross_entropy"
    generalise: float = 0.85
    sha256: str = eqx.field(default="", kw_only=True)
    precision: str = eqx.field(default="single", kw_only=True)

    def __post_init__(self):
        if isinstance(self.source, os.PathLike):
            object.__setattr__(self, "source", os.path.join(os.fspath(self.source), ""))
        super().__post_init__()
        if is_path(self.source):  # wherever it is read again
            object.__setattr__(self, "source", str(Path(self.source).expanduser().absolute()))
        if not self._is_known:
            self._read()

    def replace(self, **changes: Any) -> Self:
        """A copy with some fields changed; of another source, other images are meant."""
        return super().replace(**({"sha256": ""} if "source" in changes else {}) | changes)

    def _read(self) -> ImageSet:
        """What is in the files, as they are now: they may have been replaced since this task was made."""
        _, found = find(self.source, self.sha256)
        object.__setattr__(self, "sha256", found.sha256)
        here = [_count(labels, self.classes) for labels in (found.labels, found.test_labels)]
        object.__setattr__(self, "_facts", (found.shape, found.classes, *here))
        return found

    @property
    def _known(self) -> tuple[tuple[int, int, int], int, int, int]:
        """The shape of an image, how many classes there are, and how many training and test images to choose from."""
        if self._is_known:
            return KNOWN[self.sha256]
        if "_facts" not in vars(self):
            self._read()
        return vars(self)["_facts"]

    @property
    def _is_known(self) -> bool:
        """Whether it is about all classes of a set that needs not be here for that: it is looked for when drawn."""
        return self.classes is None and self.sha256 in KNOWN

    def __check_init__(self):
        check_positive(n=self.n)
        check_choice("loss_name", self.loss_name, tuple(_IMAGE_LOSSES))
        self.criteria.at()  # are they possible?
        _, labels, available, available_test = self._known
        chosen = tuple(range(labels)) if self.classes is None else self.classes
        require(
            len(set(chosen)) == len(chosen) >= 2 and all(0 <= label < labels for label in chosen),
            f"classes must be two or more different labels of {self.source}, 0 to {labels - 1}, got {self.classes}.",
        )
        require(
            self.loss_name in CLASS_LOSSES or len(chosen) == 2,
            f"{self.loss_name} loss is for two classes, and here are {len(chosen)}: choose some, say classes=(0, 1).",
        )
        of = "" if self.classes is None else f" of the classes {self.classes}"
        for name, count, there in (("n", self.n, available), ("n_test", self.n_test, available_test)):
            kind = "training" if name == "n" else "test"
            require(there > 0, f"{self.source} has no {kind} images{of}.")
            require(
                count is None or 0 < count <= there,
                f"{self.source} has {there} {kind} images{of}, but {name}={count} were asked for.",
            )

    @property
    def signature(self) -> Signature:
        shape, labels, _, _ = self._known
        count = labels if self.classes is None else len(self.classes)
        outputs = (count,) if self.loss_name in CLASS_LOSSES else ()
        return Signature((math.prod(shape),) if self.flat else shape, outputs)

    @property
    def numbers(self) -> int:
        shape, _, _, test = self._known
        examples = self.n + (test if self.n_test is None else self.n_test)
        pixels = math.prod(shape) if self.precision == "double" else math.prod(shape) // 2  # of half the length
        return examples * (pixels + math.prod(self.signature.outputs))

    @property
    def loss(self) -> Loss:
        return _IMAGE_LOSSES[self.loss_name]("mean")

    @property
    def metric(self) -> str:
        return "accuracy"

    @property
    def criteria(self) -> Criteria:
        return Criteria.accuracies(generalise=self.generalise)

    def draw(self, rng: np.random.Generator) -> Data:
        found = self._read()
        (_, labels, available, available_test) = self._known
        chosen = tuple(range(labels)) if self.classes is None else self.classes
        # Each list of places has the numbers of images of the classes asked for, in the order of the file.
        train, test = (np.flatnonzero(np.isin(y, chosen)) for y in (found.labels, found.test_labels))
        train = train[rng.choice(available, self.n, replace=False)]
        if self.n_test is not None:
            test = test[rng.choice(available_test, self.n_test, replace=False)]
        X, y = self._examples(found.images, found.labels, train, chosen)
        X_test, y_test = self._examples(found.test_images, found.test_labels, test, chosen)
        return Data(X, y, X_test, y_test, n=len(train), n_test=len(test))

    def _examples(
        self, images: np.ndarray, labels: np.ndarray, places: np.ndarray, chosen: tuple[int, ...]
    ) -> tuple[np.ndarray, np.ndarray]:
        real = np.float64 if self.precision == "double" else np.float32
        X = np.divide(images[places].reshape(len(places), *self.signature.inputs), 255, dtype=real)
        number = np.zeros(max(chosen) + 1, int)
        number[list(chosen)] = np.arange(len(chosen))
        y = number[labels[places]]
        if self.loss_name == "squared":
            return X, one_hot(y, len(chosen))
        return X, y if self.loss_name in CLASS_LOSSES else 2.0 * y - 1


_IMAGE_LOSSES = {**CLASS_LOSSES, "logistic": Logistic, "exponential": Exponential}


def _count(labels: np.ndarray, classes: tuple[int, ...] | None) -> int:
    return len(labels) if classes is None else int(np.isin(labels, classes).sum())
