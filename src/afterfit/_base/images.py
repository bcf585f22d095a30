"""Sets of images in files: how they are read, what they are known by, and where on this machine they are looked for.

A set is four arrays: training images and labels, test images and labels. It is in a folder, as the four IDX files of
MNIST or the six of CIFAR-10's binary version, or in one `.npz` file. Nothing that is read here is executed, and what a
file says of its own size is held against its bytes. A file that is not what it should be is refused by its name.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import gzip
import hashlib
import math
import os
import struct
import tokenize
import zipfile
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np

from afterfit._base.errors import SpecError, nearest, require
from afterfit._base.files import array_from_npy, write_atomically
from afterfit._base.machine import check_memory, in_words

__all__ = [
    "BATCHES",
    "CIFAR_SUMS",
    "FETCHABLE",
    "IDX_FILES",
    "KNOWN",
    "PUBLISHED",
    "VARIABLE",
    "ImageSet",
    "fetched",
    "find",
    "in_short",
    "is_path",
    "known_places",
    "known_sets",
    "name_of",
    "read",
    "read_idx",
    "remember",
    "sets_in",
    "where_to_get",
]

VARIABLE = "AFTERFIT_DATA"  # folders to look into first, separated as those of PATH are
_SYSTEM = Path("/usr/share/datasets")  # where Debian's packages put theirs: dataset-fashion-mnist

IDX_FILES = ("train-images-idx3-ubyte", "train-labels-idx1-ubyte", "t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte")
BATCHES = (*(f"data_batch_{k}.bin" for k in range(1, 6)), "test_batch.bin")
_NPZ = ("x_train", "y_train", "x_test", "y_test")  # as Keras calls them
_SIDE, _CHANNELS, _CLASSES = 32, 3, 10  # of CIFAR-10, whose files do not say it
_RECORD = 1 + _CHANNELS * _SIDE**2  # a label, and one byte a pixel and colour
_LARGEST = 1 << 32  # bytes of an array; of a file that says more, nothing is believed

# SHA-256 of the four arrays of sets that everybody knows, each as a plain IDX file.
PUBLISHED = {
    "mnist": (
        "ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db",
        "65a50cbbf4e906d70832878ad85ccda5333a97f0f4c3dd2ef09a8a9eef7101c5",
        "0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7",
        "ff7bcfd416de33731a308c3f266cc351222c34898ecbeaf847f06e48f7ec33f2",
    ),
    "fashion-mnist": (
        "c59f468a2f672dc815687fe0f83887768d799fd8a3f3276145d20f83aa44d888",
        "bad3541b69d912435c50bb6ba87bec294ff4f6a2e1246121d8633921760443d9",
        "5b4141f0afbad91edebe8549f8fcffe087ea10ca49f1dbef5c9a5cd8815ce37b",
        "0402a96d92fd2663957122ceb108a494c5af83dab82d92729df917d7dec38c34",
    ),
}
# What a set of these is known by, and what there is to know of it before it is read.
_FACTS = (28, 28, 1), 10, 60_000, 10_000
_NAMES = {
    "ca679089cd9dd461d7b26e36e51216fc71f9271f8082e09656a7c1d29a50483b": "mnist",
    "697249e9d1e87d6b2c6a738e828c890264cffecccb13840d472e3585751a5582": "fashion-mnist",
}
KNOWN = dict.fromkeys(_NAMES, _FACTS)
# SHA-256 of the six files of CIFAR-10's binary version.
CIFAR_SUMS = {
    "data_batch_1.bin": "cee916563c9f80d84e3cc88e17fdc0941787f1244f00a67874d45b261883ada5",
    "data_batch_2.bin": "a591ca11fa1708a91ee40f54b3da4784ccd871ecf2137de63f51ada8b3fa57ed",
    "data_batch_3.bin": "bbe8596564c0f86427f876058170b84dac6670ddf06d79402899d93ceea26f67",
    "data_batch_4.bin": "014e562d6e23c72197cc727519169a60359f5eccd8945ad5a09d710285ff4e48",
    "data_batch_5.bin": "755304fc0b379caeae8c14f0dac912fbc7d6cd469eb67a1029a08a39453a9add",
    "test_batch.bin": "8e2eb146ae340b09e24670f29cabc6326dba54da8789dab6768acf480273f65b",
}
_CIFAR_LENGTH = 10_000 * _RECORD
FETCHABLE = (*PUBLISHED, "cifar10")


@dataclasses.dataclass(frozen=True)
class ImageSet:
    """Images of shape (n, height, width) or (n, height, width, channels), and their labels, all of them bytes."""

    images: np.ndarray
    labels: np.ndarray
    test_images: np.ndarray
    test_labels: np.ndarray

    @property
    def arrays(self) -> tuple[np.ndarray, ...]:
        return self.images, self.labels, self.test_images, self.test_labels

    @functools.cached_property
    def sums(self) -> tuple[str, ...]:
        """SHA-256 of each array as a plain IDX file, whatever it was read from."""
        return tuple(map(_sum_as_idx, self.arrays))

    @property
    def sha256(self) -> str:
        """What the set is known by: SHA-256 of its four checksums."""
        return hashlib.sha256("\n".join(self.sums).encode()).hexdigest()

    @property
    def shape(self) -> tuple[int, int, int]:
        """Height, width and channels of an image."""
        height, width, *channels = self.images.shape[1:]
        return height, width, *(channels or [1])  # pyright: ignore[reportReturnType]

    @property
    def classes(self) -> int:
        return int(max(self.labels.max(), self.test_labels.max())) + 1

    @property
    def published(self) -> str | None:
        """The name of the well-known set that this is, if it is one."""
        return next((name for name, sums in PUBLISHED.items() if sums == self.sums), None)


def read(source: Path) -> ImageSet:
    """The set in a folder or an `.npz` file; refuses files that are missing, damaged or do not fit each other.

    The last one is kept, and not read again as long as its files are the same: each run of many draws from them.
    """
    return _read(source, _stamps(source))


def _stamps(source: Path) -> tuple[tuple[int, ...], ...]:
    """What changes when files are written to."""
    try:
        stats = [file.stat() for file in (sorted(source.iterdir()) if source.is_dir() else [source])]
    except OSError:  # what is not there, or not ours to read, is refused elsewhere
        return ()
    return tuple((stat.st_ino, stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns) for stat in stats)


@functools.lru_cache(maxsize=1)
def _read(source: Path, stamps: tuple[tuple[int, ...], ...]) -> ImageSet:
    if source.suffix == ".npz" and source.is_file():
        files, arrays = [source] * 4, _read_npz(source)
    elif any((source / name).is_file() for name in BATCHES):
        files, arrays = [source / BATCHES[k] for k in (0, 0, -1, -1)], _read_cifar(source)
    elif any(_is_idx(source, name) for name in IDX_FILES):
        files = [_idx_path(source, name) for name in IDX_FILES]
        arrays = [read_idx(path) for path in files]
    else:
        require(source.exists(), f"there is no {'file' if source.suffix == '.npz' else 'folder'} {source}.")
        raise SpecError(
            f"{source} has no {IDX_FILES[0]} (nor {IDX_FILES[0]}.gz) and no {BATCHES[0]}: a folder of images holds "
            "MNIST's four files or CIFAR-10's six, or is given as the .npz file itself."
        )
    # One channel, said or not, is the same image.
    arrays = [array[..., 0] if array.ndim == 4 and array.shape[-1] == 1 else array for array in arrays]
    _check_fit(files, arrays)
    for array in arrays:
        array.flags.writeable = False
    found = ImageSet(*arrays)
    if len(set(files)) == len(files):  # bits that fell over in an archive are seen when it is opened
        _check_published(files, found)
    return found


def _check_published(files: list[Path], found: ImageSet) -> None:
    """Refuse a well-known set of which one file is another, though as long."""
    _, _, training, tests = _FACTS
    if (len(found.images), len(found.test_images)) != (training, tests):
        return
    for name, sums in PUBLISHED.items():
        others = [k for k in range(4) if found.sums[k] != sums[k]]
        if len(others) == 1:
            (k,) = others
            raise SpecError(
                f"{files[k]} is damaged: the other files are those of {name}, but this one has SHA-256 "
                f"{found.sums[k][:12]}… in place of {sums[k][:12]}…. Remove it, and `afterfit data fetch {name}`; or, "
                "if it is meant to be another, write all four into an .npz file."
            )


def _check_fit(files: list[Path], arrays: list[np.ndarray]) -> None:
    images, labels, test_images, test_labels = arrays
    for file, array in ((files[0], images), (files[2], test_images)):
        require(
            array.ndim in (3, 4) and min(array.shape) > 0,
            f"{file} holds no images: its shape is {array.shape}, and not (images, height, width).",
        )
    require(
        images.shape[1:] == test_images.shape[1:],
        f"{files[0]} and {files[2].name} hold images of different shapes, {images.shape[1:]} and "
        f"{test_images.shape[1:]}.",
    )
    for file, array, of in ((files[1], labels, images), (files[3], test_labels, test_images)):
        require(
            array.shape == (len(of),),
            f"{file} has labels of shape {array.shape} for {len(of)} images: one label an image is needed.",
        )
    largest = int(labels.max())
    require(
        test_labels.max() <= largest,
        f"{files[3]} has the label {test_labels.max()}, but those of training images go up to {largest}.",
    )


# ------------------------------------------------------------------------------------------------------- IDX


def _idx_header(shape: tuple[int, ...]) -> bytes:
    return bytes((0, 0, 8, len(shape))) + b"".join(size.to_bytes(4, "big") for size in shape)


def _sum_as_idx(array: np.ndarray) -> str:
    total = hashlib.sha256(_idx_header(array.shape))
    total.update(np.ascontiguousarray(array).data)
    return total.hexdigest()


def _is_idx(folder: Path, name: str) -> bool:
    return (folder / name).is_file() or (folder / f"{name}.gz").is_file()


def _idx_path(folder: Path, name: str) -> Path:
    for path in (folder / name, folder / f"{name}.gz"):
        if path.is_file():
            return path
    raise SpecError(f"{folder} has no {name} (nor {name}.gz): put MNIST's four files there.")


def read_idx(path: Path) -> np.ndarray:
    """The bytes in an IDX file: two zero bytes, the type (8: unsigned byte), the rank, the sizes, the numbers."""
    try:
        with gzip.open(path, "rb") if path.suffix == ".gz" else path.open("rb") as file:
            magic = file.read(4)
            require(len(magic) == 4 and magic[:2] == b"\x00\x00", f"{path} is not an IDX file: it begins otherwise.")
            require(magic[2] == 8, f"{path} is an IDX file of type {magic[2]:#x}: images and labels are bytes, 0x8.")
            rank = magic[3]
            header = file.read(4 * rank)
            require(len(header) == 4 * rank, f"{path} is cut short: its header is not complete.")
            shape = tuple(int.from_bytes(header[4 * k : 4 * k + 4], "big") for k in range(rank))
            size = _believed(path, shape)
            content = file.read(size + 1)  # one more, to see whether there is more than it says
    except (EOFError, gzip.BadGzipFile, zlib.error):
        raise SpecError(f"{path} is cut short or damaged: it cannot be unzipped.") from None
    require(len(content) >= size, f"{path} is cut short: {len(content)} bytes for shape {shape}.")
    require(len(content) == size, f"{path} is longer than the {size} bytes of its shape {shape}.")
    return np.frombuffer(content, np.uint8).reshape(shape)


def _believed(path: Path, shape: tuple[int, ...]) -> int:
    """The bytes of an array of the shape that a file claims; refuses more than there can be."""
    size = math.prod(shape)
    require(size <= _LARGEST, f"{path} says that its shape is {shape}, which is more than images take.")
    packed = path.suffix in (".gz", ".npz")
    length = path.stat().st_size
    # Deflate packs a thousand bytes into one at most.
    require(size <= length * (1100 if packed else 1), f"{path} is cut short: {length} bytes for shape {shape}.")
    check_memory(size, f"the images in {path}", lambda: "close other programs")
    return size


# ---------------------------------------------------------------------------------------------------- CIFAR-10


def _read_cifar(folder: Path) -> list[np.ndarray]:
    batches = [_read_batch(folder / name) for name in BATCHES]
    lengths = {name: len(batch) for name, batch in zip(BATCHES, batches, strict=True)}
    for name, length in lengths.items():  # the format does not say how many there should be, and all have as many
        most = max(lengths.values())
        require(length == most, f"{folder / name} is cut short: {length} images, where another batch has {most}.")
    halves = np.concatenate(batches[:-1]), batches[-1]
    return [part for half in halves for part in (_cifar_images(half), np.ascontiguousarray(half[:, 0]))]


def _cifar_images(records: np.ndarray) -> np.ndarray:
    planes = records[:, 1:].reshape(-1, _CHANNELS, _SIDE, _SIDE)  # all red, then all green, then all blue
    return np.ascontiguousarray(planes.transpose(0, 2, 3, 1))


def _read_batch(path: Path) -> np.ndarray:
    require(path.is_file(), f"{path.parent} has no {path.name}: put the six files of CIFAR-10's binary version there.")
    content = path.read_bytes()
    require(
        len(content) > 0 and len(content) % _RECORD == 0,
        f"{path} is cut short or no batch of CIFAR-10: its {len(content)} bytes are no multiple of {_RECORD}.",
    )
    if len(content) == _CIFAR_LENGTH:
        now, meant = hashlib.sha256(content).hexdigest(), CIFAR_SUMS[path.name]
        require(
            now == meant,
            f"{path} is damaged: its SHA-256 is {now[:12]}… in place of {meant[:12]}…. Remove it, and `afterfit data "
            "fetch cifar10`.",
        )
    records = np.frombuffer(content, np.uint8).reshape(-1, _RECORD)
    largest = records[:, 0].max()
    require(largest < _CLASSES, f"{path} has the label {largest}, but those of CIFAR-10 are 0 to {_CLASSES - 1}.")
    return records


# --------------------------------------------------------------------------------------------------------- npz


# What zipfile, zlib and NumPy, whose headers are written like Python, say to bytes that are no arrays in an archive.
_MALFORMED = (
    *(zipfile.BadZipFile, zlib.error, NotImplementedError, EOFError, RuntimeError),
    *(ValueError, SyntaxError, struct.error, tokenize.TokenError),
)


def _read_npz(path: Path, names: Iterable[str] = _NPZ) -> list[np.ndarray]:
    """The arrays x_train, y_train, x_test and y_test, packed or not, or those of them that are named."""
    try:
        with zipfile.ZipFile(path) as archive:
            there = {entry.filename.removesuffix(".npy"): entry for entry in archive.infolist()}
            missing = [name for name in _NPZ if name not in there]
            require(not missing, f"{path} has no {missing[0] if missing else ''}: {', '.join(_NPZ)} are needed.")
            arrays = {}
            for name in names:
                usual = there[name].compress_type in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
                require(usual, f"{path} has {name} packed otherwise than NumPy does: write it with np.savez.")
                _believed(path, (there[name].file_size,))
                arrays[name] = array_from_npy(archive.read(there[name]))
    except SpecError:
        raise
    except _MALFORMED as error:
        raise SpecError(f"{path} is damaged, or no .npz file with arrays of numbers: {error}.") from None
    return [_as_bytes(path, name, array) for name, array in arrays.items()]


def _as_bytes(path: Path, name: str, array: np.ndarray) -> np.ndarray:
    if name.startswith("y") and array.ndim == 2 and array.shape[1] == 1:  # as Keras has those of CIFAR-10
        array = array[:, 0]
    whole = array.dtype.kind in "iu" and array.size > 0
    require(
        whole and array.min() >= 0 and array.max() <= 255,
        f"{path} has {name} of type {array.dtype}, and not whole numbers from 0 to 255.",
    )
    return np.ascontiguousarray(array, np.uint8)


# ------------------------------------------------------------------------------------------------ where they are


def _user_directory(variable: str, usual: str) -> Path:
    return Path(os.environ.get(variable) or Path.home() / usual) / "afterfit"


def fetched(name: str = "") -> Path:
    """Where downloaded sets are."""
    return _user_directory("XDG_CACHE_HOME", ".cache") / "data" / name


def _remembered() -> Path:
    return _user_directory("XDG_CONFIG_HOME", ".config") / "data-paths"


def remember(folder: Path) -> None:
    """Look into a folder from now on, before those that were named earlier."""
    file = _remembered()
    file.parent.mkdir(parents=True, exist_ok=True)
    others = [place for place in _remembered_places() if place != folder]
    write_atomically(file, "".join(f"{place}\n" for place in (folder, *others)).encode(errors="surrogateescape"))


def _remembered_places() -> list[Path]:
    try:
        lines = _remembered().read_bytes().decode(errors="surrogateescape").split("\n")
    except FileNotFoundError:
        return []
    return [Path(line) for line in lines if line]


def known_places() -> list[Path]:
    """The folders that are looked into: of the environment, those that were named, what was fetched, the system's."""
    said = [Path(part).expanduser() for part in os.environ.get(VARIABLE, "").split(os.pathsep) if part]
    for place in said:
        require(place.is_dir(), f"{VARIABLE} in the environment names {place}, which is no folder.")
    return [*said, *_remembered_places(), fetched(), _SYSTEM]


def sets_in(place: Path) -> Iterator[tuple[str, Path]]:
    """Names and places of the sets in a folder and up to two levels below it, where other libraries put theirs."""
    level = [place]
    for _ in range(3):
        below: list[Path] = []
        for folder in level:
            with contextlib.suppress(OSError):  # not there, or not ours to read
                if _holds(folder):
                    yield name_of(folder), folder
                entries = sorted(folder.iterdir())
                yield from ((name_of(file), file) for file in entries if file.suffix == ".npz" and file.is_file())
                below += [entry for entry in entries if entry.is_dir() and not entry.name.startswith(".")]
        level = below


def _holds(folder: Path) -> bool:
    return any(_is_idx(folder, name) for name in IDX_FILES) or any((folder / name).is_file() for name in BATCHES)


def name_of(source: Path) -> str:
    """What a set is called: by what it is if that is known, else by its folder or file."""
    if source.suffix != ".npz" and any((source / name).is_file() for name in BATCHES):
        return "cifar10"
    with contextlib.suppress(SpecError, OSError):  # ten thousand bytes tell which of the known ones it is
        packed = source.suffix == ".npz"
        (labels,) = _read_npz(source, _NPZ[3:]) if packed else [read_idx(_idx_path(source, IDX_FILES[3]))]
        if known := [name for name, sums in PUBLISHED.items() if sums[3] == _sum_as_idx(labels)]:
            return known[0]
    name = source.stem if source.suffix == ".npz" else source.name
    name = source.parent.name if name == "raw" else name  # as torchvision has it
    folded = {usual.replace("-", ""): usual for usual in FETCHABLE}
    return folded.get(name.lower().replace("-", "").replace("_", ""), name)


def known_sets() -> Iterator[tuple[str, Path]]:
    """All sets in the places that are looked into, the first of a name being the one that it means."""
    seen: set[Path] = set()
    for place in known_places():
        for name, source in sets_in(place):
            if source not in seen:
                seen.add(source)
                yield name, source


def is_path(source: str) -> bool:
    """Whether words mean a place, and not the name of a set."""
    return "/" in source or os.sep in source or source.startswith((".", "~")) or source.endswith(".npz")


def find(source: str, sha256: str = "") -> tuple[Path, ImageSet]:
    """The set of a name or at a place, and where it is; with `sha256`, the one that has it."""
    if is_path(source):
        path = Path(source).expanduser()
        if path.exists() or not sha256:
            return path, _as_asked(path, source, sha256)
        # Written down on another machine: what it is counts, and not where it was.
        same = _same(known_sets(), sha256)
        if same is None:
            raise SpecError(where_to_get(_NAMES.get(sha256, source)))
        return same
    candidates = [(name, path) for name, path in known_sets() if name == source]
    if len(candidates) == 1 or (candidates and not sha256):
        path = candidates[0][1]
        return path, _as_asked(path, source, sha256)
    if same := _same(candidates, sha256):
        return same
    if candidates:
        return candidates[0][1], _as_asked(candidates[0][1], source, sha256)
    raise SpecError(where_to_get(source))


def _same(candidates: Iterable[tuple[str, Path]], sha256: str) -> tuple[Path, ImageSet] | None:
    """The first that is whole and is known by `sha256`, and where it is."""
    for _, path in candidates:
        with contextlib.suppress(SpecError):
            found = read(path)
            if found.sha256 == sha256:
                return path, found
    return None


def _as_asked(path: Path, source: str, sha256: str) -> ImageSet:
    found = read(path)
    require(
        sha256 in ("", found.sha256),
        f"the files in {path} are no longer those that this task is about ({source}, sha256 {sha256[:12]}…): make it "
        "anew, without sha256, or `afterfit data path DIR` of a folder with those files.",
    )
    return found


def where_to_get(source: str) -> str:
    """What to do for a set that is not on this machine, in a sentence."""
    local = "`afterfit data path DIR` uses a copy that you have"
    if source in FETCHABLE:
        return (
            f"the images of {source} are not on this machine: `afterfit data fetch {source}` downloads them, {local}."
        )
    if is_path(source):
        return f"there are no images at {source}: {local}."
    here = sorted({name for name, _ in known_sets()} | set(FETCHABLE))
    return f"there are no images called {source!r}: {nearest(source, here)} {local}; a folder is ./{source}."


def in_short(found: ImageSet) -> str:
    """What a set is, for people."""
    height, width, channels = found.shape
    colours = "" if channels == 1 else f"×{channels}"
    size = in_words(sum(array.nbytes for array in found.arrays), "bytes")
    counts = f"{len(found.labels)} + {len(found.test_labels)} images of {height}×{width}{colours}"
    return f"{counts}, {found.classes} classes, {size}"
