"""The store: runs in a directory or a bucket, by the names of their experiments."""

from __future__ import annotations

import hashlib
import json
import os
import re
import warnings
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from afterfit._base.errors import AfterfitError, Damaged, SpecError, Unreadable, error_in_words, require
from afterfit._base.files import SUMS, check_sums, read_json, sums_of, to_json
from afterfit._sweeps.store.index import Index
from afterfit._sweeps.store.leases import Leases
from afterfit._sweeps.store.places import Place, find_place
from afterfit._sweeps.store.sql import Database
from afterfit._training.experiment import is_id
from afterfit._training.run import FILES, READ, Run, check_files

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["Store"]

_FORMAT = 1  # of a store
_SUM = "sha256"  # of a sweep, beside what it is
_LEFT_BEHIND = 3600.0  # seconds after which what a killed publisher left can be removed


class Store:
    """Runs by the names of their experiments (`Experiment.id`), each in a directory `<url>/<id>/` of plain files.

    `url` is a path, or a URL of fsspec such as `s3://bucket/runs`. Any number of processes may use a store at once:
    a run is seen complete or not at all. Reading one executes nothing.

    ```python
    store = af.Store("results/store")
    store.publish(run.id, run.files())
    store.load(run.id).verdict
    store.query('SELECT "penalty.strength", t_gen FROM runs WHERE verdict = \\'grokking\\'').to_pandas()
    ```
    """

    def __init__(self, url: str | os.PathLike[str] = "results/store"):
        self._place: Place = find_place(os.fsdecode(url))
        self._there = self._check_format()
        self._leases = Leases(self._place)
        self._index = Index(self._place, self._read, self._doubt)

    @property
    def url(self) -> str:
        """Where the store is."""
        return self._place.url

    # --------------------------------------------------------------------------------------------------- runs

    def __contains__(self, id: str) -> bool:
        return is_id(id) and self._place.has(id)

    def ids(self) -> list[str]:
        """The names of all runs, sorted."""
        return sorted(self.stamps())

    def stamps(self) -> dict[str, str]:
        """The names of all runs, each with a word that is another one once the run was written again.

        This is a cheap way to see whether anything has changed.
        """
        return self._place.stamps()

    def publish(self, id: str, files: Mapping[str, bytes]) -> bool:
        """Put a run into the store, given as `run.files()`. False if it is there already; that one is kept.

        A run that was interrupted is refused: it would pass for the whole one.
        """
        require(is_id(id), f"a run without a name cannot be stored, got {id!r}: see Experiment.id.")
        files = {SUMS: sums_of(files), **files}
        missing = sorted(set(FILES) - set(files))
        require(not missing, f"run {id} is not whole: it has no {', '.join(missing)}.")
        check_sums(files[SUMS], {name: content for name, content in files.items() if name != SUMS}, f"run {id}")
        facts = json.loads(files["run.json"])
        require(facts["id"] == id, f"these files are of the run {facts['id']!r}, not of {id}.")
        require(
            facts["status"] != "interrupted",
            f"run {id} was interrupted, and is not what its name says until it is whole: keep it with run.save().",
        )
        if id in self:
            return False
        self._open()
        return self._place.publish(id, files)

    def load(self, id: str) -> Run:
        """The run of this name; the beginning of a name is enough if only one begins so.

        A run that is not as it was written is moved to `damaged/` in the store, and `Damaged` is raised. One that
        cannot be read for another reason (a newer format, a missing permission or module) is left where it is, and
        `Unreadable` is raised.
        """
        id = self.find(id)
        try:
            return self._read(id)
        except Damaged as error:
            raise self._set_aside(id, error) from error.__cause__

    def find(self, beginning: str) -> str:
        """The full name of the one run whose name begins so."""
        if beginning in self:
            return beginning
        found = [id for id in self.ids() if id.startswith(beginning)] if beginning else []
        require(bool(found), f"there is no run {beginning!r} in {self.url}: `afterfit runs ls` lists them.")
        several = ", ".join(found[:5]) + (", …" if len(found) > 5 else "")
        require(len(found) == 1, f"{len(found)} runs begin with {beginning!r}: {several}.")
        return found[0]

    def remove(self, id: str) -> None:
        """Remove a run for good."""
        require(id in self, f"there is no run {id!r} in {self.url}.")
        self._place.remove(id)

    def files(self, id: str) -> dict[str, int]:
        """The files of a run, and their sizes in bytes."""
        require(id in self, f"there is no run {id!r} in {self.url}.")
        return dict(sorted(self._place.sizes(id).items()))

    def check(self) -> dict[str, str]:
        """Read every run, and set aside those that are damaged: their names, with what is wrong.

        A run that cannot be read for another reason is left where it is; a warning says so.
        """
        self._place.sweep_up(_LEFT_BEHIND)
        wrong = {}
        for id in self.ids():
            try:
                list(self._read(id).checkpoints)  # which are read only when they are asked for
            except Damaged as error:
                wrong[id] = str(self._set_aside(id, error))
            except Unreadable as error:
                warnings.warn(str(error), stacklevel=2)
            except SpecError:  # removed since
                pass
        return wrong

    def set_aside_damaged(self, ids: Iterable[str]) -> dict[str, str]:
        """Compare runs with their checksums, and set aside those that differ: their names, with what is wrong.

        This is quicker than `check`, which reads them too.
        """
        wrong = {}
        for id in ids:
            try:
                files = self._files(id)
                if files and check_files(files, f"run {id}")["id"] != id:
                    raise Damaged(f"run {id} is damaged: it is in the place of another.")
            except Damaged:
                if error := self._doubt(id):
                    wrong[id] = str(error)
            except Unreadable:  # which does not say that it is damaged
                pass
        return wrong

    # ------------------------------------------------------------------------------------------------- tables

    def summaries(self) -> pa.Table:
        """One row a run, the latest first: name, status, verdict, times, settings, final metrics, cost.

        A setting is a column by its dotted name, such as `penalty.strength`; a column whose values are not all numbers
        holds words. `t_gen` is null where there is none.
        """
        return self._index.table()

    def query(self, sql: str) -> pa.Table:
        """The answer to a question in SQL (DuckDB's) about the tables `runs` and `curves`.

        `runs` is `summaries()`. `curves` has one row an observation of a run: its `id`, `time`, `step` and every
        observed quantity. Names with dots need double quotes; of columns of one name the second is called `id_1`.

        A question can read these two tables and do nothing else: there are no files, no network and no extensions. It
        may take a minute and 2 GB, its answer half a gigabyte.

        ```python
        store.query('SELECT "penalty.strength", median(t_gen) FROM runs GROUP BY 1 ORDER BY 1')
        store.query("SELECT id, max(norm_l2) FROM curves GROUP BY id")
        ```
        """
        with Database() as database:  # which starts while the table is read
            runs = self.summaries()
            asked = re.search(r"\bcurves\b", sql, re.IGNORECASE)
            answer, unread = database.ask(sql, runs, self._curves(runs["id"].to_pylist()) if asked else None)
        for id in unread:
            self._say_if_damaged(id)
        return answer

    def _curves(self, ids: Iterable[str]) -> dict[str, str | bytes]:
        """The files with the curves of those runs whose curves are as they were written, as `Database` takes them."""
        found = {}
        for id in ids:
            name, sums = f"{id}/curves.parquet", f"{id}/{SUMS}"
            try:
                files = self._place.read([name, sums])
                if len(files) == 2:
                    check_sums(files[sums], {"curves.parquet": files[name]}, f"run {id}")
                    found[id] = self._place.path(name) or files[name]
                    continue
            except Damaged:
                pass
            except OSError as error:
                warnings.warn(f"the curves of run {id} cannot be read ({error.strerror or error}).", stacklevel=3)
                continue
            self._say_if_damaged(id)
        return found

    def _say_if_damaged(self, id: str) -> None:
        if error := self._doubt(id):
            warnings.warn(str(error), stacklevel=4)

    # ------------------------------------------------------------------------------------------------- sweeps

    def keep_sweep(self, id: str, sweep: Mapping[str, Any]) -> None:
        """Write down what a sweep is, as plain data: `sweep-<id>.json`, with a checksum among it."""
        self._open()
        self._place.write(f"sweep-{id}.json", to_json({**sweep, _SUM: _sum_of(sweep)}))

    def sweeps(self) -> list[str]:
        """The ids of the sweeps that were run into this store, sorted."""
        found = (re.fullmatch(r"sweep-(\w+)\.json", name) for name in self._place.names())
        return sorted(name[1] for name in found if name)

    def sweep(self, id: str) -> dict[str, Any]:
        """What a sweep is, as plain data; the beginning of its id is enough if only one begins so."""
        known = self.sweeps()
        found = [name for name in known if name.startswith(id)] if id else []
        require(bool(found), f"there is no sweep {id!r} in {self.url}. Known: {', '.join(known) or 'none'}.")
        require(len(found) == 1, f"{len(found)} sweeps begin with {id!r}: {', '.join(found)}.")
        name = f"sweep-{found[0]}.json"
        data = read_json(self._place.read([name]).get(name, b""), name, f"sweep {found[0]}")
        said = data.pop(_SUM, None) if isinstance(data, dict) else ""  # the first afterfits wrote none
        if said not in (None, _sum_of(data)):
            raise Damaged(f"sweep {found[0]} is damaged: {name} is not as it was written. Running the sweep writes it.")
        return data

    # ------------------------------------------------------------------------------------------------- leases

    def lease(self, ids: Iterable[str]) -> set[str]:
        """Those of `ids` that are not in the store and that nobody else is working on: now this object is.

        They are given up by `release`, at the end of the process, and at once if the process is killed (on other
        machines a minute later). What this object holds already, it gets again.
        """
        self._open()
        mine = self._leases.take(id for id in ids if id not in self)
        done = {id for id in mine if id in self}  # by somebody who released them just now
        self._leases.release(done)
        return mine - done

    def release(self, ids: Iterable[str]) -> None:
        """Give up leases; those that this object does not hold are left alone."""
        self._leases.release(ids)

    # ------------------------------------------------------------------------------------------------ insides

    def _check_format(self) -> bool:
        """Refuse a place that is not a store, or a newer one; False if there is nothing yet."""
        names = self._place.names()
        if not names:
            return False
        require("store.json" in names, f"{self.url} holds other files and is not a store: choose another place.")
        try:
            (content,) = self._place.read(["store.json"]).values()
            written = int(json.loads(content)["format"])
        except (ValueError, KeyError, TypeError, OverflowError, RecursionError):
            raise SpecError(f"{self.url}/store.json cannot be read: is this a store of afterfit?") from None
        require(
            written <= _FORMAT,
            f"{self.url} is a store of a newer afterfit (format {written}, this one knows {_FORMAT}): upgrade.",
        )
        return True

    def _open(self) -> None:
        """Make the store if there is none."""
        if not self._there and not self._check_format():
            self._place.write("store.json", to_json({"format": _FORMAT}))
        self._there = True

    def _files(self, id: str, names: Iterable[str] = READ) -> dict[str, bytes]:
        try:
            found = self._place.read(f"{id}/{name}" for name in names)
        except (OSError, MemoryError) as error:
            said = getattr(error, "strerror", None) or error_in_words(error)
            raise Unreadable(f"run {id} in {self.url} cannot be read ({said}).") from error
        return {name.partition("/")[2]: content for name, content in found.items()}

    def _read(self, id: str) -> Run:
        """A run, looked at twice before it is called damaged: it may be replaced while it is read."""
        where = f"run {id}"
        for attempt in (1, 2):
            files = self._files(id)
            require(bool(files) or id in self, f"there is no {where} in {self.url} any more.")
            try:
                run = Run.from_files(files, where, lambda name: self._files(id, [name]).get(name))
                if run.id != id:
                    raise Damaged(f"{where} is damaged: it is in the place of {run.id or 'a run without a name'}.")
                return run
            except Damaged:
                if attempt == 2:
                    raise
        raise AssertionError

    def _doubt(self, id: str) -> Damaged | None:
        """Look at a run, and set it aside if it is damaged: what is wrong, or None if that is not so."""
        try:
            self._read(id)
        except Damaged as error:
            return self._set_aside(id, error)
        except AfterfitError:  # it cannot be read for another reason, or is gone
            pass
        return None

    def _set_aside(self, id: str, error: Damaged) -> Damaged:
        """Move a damaged run away; the error that says where."""
        try:
            said = f"It is now in {self._place.set_aside(id)}; run the experiment again."
        except FileNotFoundError:
            said = "Somebody else has set it aside."
        except OSError as trouble:
            said = f"It could not be set aside ({trouble.strerror or trouble}): remove it."
        return Damaged(f"{error} {said}")


def _sum_of(sweep: Any) -> str:
    """The checksum of plain data, however it is spaced."""
    return hashlib.sha256(json.dumps(sweep, sort_keys=True).encode()).hexdigest()
