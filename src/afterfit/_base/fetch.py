"""Downloads of image sets: from the first mirror that has the right bytes, each file complete or not at all."""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import importlib
import logging
import tarfile
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from afterfit._base.errors import AfterfitError, SpecError
from afterfit._base.files import write_atomically
from afterfit._base.images import CIFAR_SUMS, FETCHABLE, fetched, read
from afterfit._base.progress import progress_bar

__all__ = ["REMOTE", "Remote", "fetch"]

_Show = bool | Callable[[float], None] | None  # of a bar, as `progress_bar` takes it
_PATIENCE = 30  # seconds that a mirror may be silent


@dataclasses.dataclass(frozen=True)
class Remote:
    """Files to download: checksums as their publishers give them, by name; and mirrors, the quickest first."""

    files: dict[str, str]
    mirrors: tuple[str, ...]


REMOTE = {
    "mnist": Remote(
        files={
            "train-images-idx3-ubyte.gz": "sha256:440fcabf73cc546fa21475e81ea370265605f56be210a4024d2ca8f203523609",
            "train-labels-idx1-ubyte.gz": "sha256:3552534a0a558bbed6aed32b30c495cca23d567ec52cac8be1a0730e8010255c",
            "t10k-images-idx3-ubyte.gz": "sha256:8d422c7b0a1c1c79245a5bcf07fe86e33eeafee792b84584aec276f5a2dbc4e6",
            "t10k-labels-idx1-ubyte.gz": "sha256:f7ae60f92e00ec6debd23a6088c31dbd2371eca3ffa0defaefb259924204aec6",
        },
        mirrors=(
            "https://ossci-datasets.s3.amazonaws.com/mnist/",
            "https://storage.googleapis.com/cvdf-datasets/mnist/",
            "https://raw.githubusercontent.com/fgnt/mnist/master/",
        ),
    ),
    "fashion-mnist": Remote(
        files={
            "train-images-idx3-ubyte.gz": "md5:8d4fb7e6c68d591d4c3dfef9ec88bf0d",
            "train-labels-idx1-ubyte.gz": "md5:25c81989df183df01b3e8a0aad5dffbe",
            "t10k-images-idx3-ubyte.gz": "md5:bef4ecab320f06d8554ea6380940ec79",
            "t10k-labels-idx1-ubyte.gz": "md5:bb300cfdad3c16e7a12a480ee83cd310",
        },
        mirrors=(
            "https://raw.githubusercontent.com/zalandoresearch/fashion-mnist/master/data/fashion/",
            "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/",
        ),
    ),
    "cifar10": Remote(
        files={
            "cifar-10-binary.tar.gz": "sha256:c4a38c50a1bc5f3a1c5537f2155ab9d68f9f25eb1ed8d9ddda3db29a59bca1dd",
        },
        mirrors=("https://www.cs.toronto.edu/~kriz/", "https://cave.cs.toronto.edu/kriz/"),
    ),
}
assert tuple(REMOTE) == FETCHABLE


def fetch(name: str, say: Callable[[str], None], show: _Show = None) -> Path:
    """Download a set, unless it is there, and return its folder. `say` is told of each mirror that failed.

    Started again it goes on: files that are there and whole are kept.
    """
    folder = fetched(name)
    folder.mkdir(parents=True, exist_ok=True)
    for file, known in REMOTE[name].files.items():
        if not (_unpacked(folder) if file.endswith(".tar.gz") else _is_whole(folder / file, known)):
            _retrieve(name, file, known, folder, say, show)
        if file.endswith(".tar.gz"):
            _unpack(folder / file, folder)
    read(folder)  # what was fetched is what it should be
    return folder


def _retrieve(name: str, file: str, known: str, folder: Path, say: Callable[[str], None], show: _Show) -> None:
    try:
        pooch: Any = importlib.import_module("pooch")
        requests: Any = importlib.import_module("requests")  # which Pooch needs, too
    except ModuleNotFoundError:
        raise SpecError(
            "downloading needs Pooch: `pip install 'afterfit[data]'`. Or `afterfit data path DIR` uses a copy that "
            "you have."
        ) from None
    pooch.get_logger().setLevel(logging.ERROR)  # what there is to say is said here
    failures = []
    for mirror in REMOTE[name].mirrors:
        try:
            with _bar(file, show) as bar:
                load = pooch.HTTPDownloader(progressbar=bar, chunk_size=1 << 16, timeout=_PATIENCE)
                pooch.retrieve(mirror + file, known_hash=known, fname=file, path=folder, downloader=load)
            return
        except requests.RequestException as error:
            reason = _in_words(error)
        except ValueError:  # Pooch's word for bytes that have another checksum
            reason = "what it sent has another checksum"
        failures.append(f"{mirror}: {reason}")
        say(f"{file} could not be had from {mirror} ({reason}).")
    raise AfterfitError(
        f"{file} could not be downloaded ({'; '.join(failures)}). Try again later: what was fetched is kept. Or "
        f"`afterfit data path DIR` uses a copy of {name} that you have."
    )


def _in_words(error: Any) -> str:
    """What a request came to, without the addresses and objects that the library prints."""
    if error.response is not None:
        return f"it answered {error.response.status_code}"
    words = {
        "Timeout": "it did not answer in time",
        "ChunkedEncoding": "the connection was cut",
        "SSL": "no safe connection",
    }
    kind = type(error).__name__
    return next((said for word, said in words.items() if word in kind), "it cannot be reached")


class _Bar:
    """What Pooch tells of a download, in the shape that it wants, as shares for our own bar."""

    def __init__(self, update: Callable[[float], None]):
        self.total, self._done, self._update = 0, 0, update

    def update(self, count: int) -> None:
        self._done += count
        if self.total:
            self._update(min(self._done / self.total, 1.0))

    def reset(self) -> None:
        self._done = 0

    def close(self) -> None:
        pass


@contextlib.contextmanager
def _bar(file: str, show: _Show) -> Iterator[_Bar]:
    with progress_bar(file, show) as update:
        yield _Bar(update)


def _unpacked(folder: Path) -> bool:
    """Whether the files that an archive holds are there, and whole."""
    paths = {folder / file: known for file, known in CIFAR_SUMS.items()}
    return all(_is_whole(path, f"sha256:{known}") for path, known in paths.items())


def _unpack(archive: Path, folder: Path) -> None:
    """Take the six files out of CIFAR-10's archive, which is not needed after that."""
    if not archive.exists():
        return
    try:
        with tarfile.open(archive) as content:
            members = {Path(member.name).name: member for member in content if member.isfile()}
            for file in CIFAR_SUMS:
                inside = content.extractfile(members[file]) if file in members else None
                if inside is None:
                    raise AfterfitError(f"{archive} does not hold {file}: remove it, and fetch it again.")
                write_atomically(folder / file, inside.read())
    except (tarfile.TarError, EOFError, zlib.error):
        raise AfterfitError(f"{archive} is damaged: remove it, and fetch it again.") from None
    archive.unlink()


def _is_whole(path: Path, known: str) -> bool:
    """Whether a file is there, with the checksum that it is `known` by, which says of what kind it is."""
    kind, _, checksum = known.partition(":")
    return path.is_file() and hashlib.new(kind, path.read_bytes(), usedforsecurity=False).hexdigest() == checksum
