"""The store: runs in a directory or a bucket, by the names of their experiments."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from afterfit.experiment import is_id
from afterfit.files import SUMS, Damaged, check_sums, sums_of, to_json
from afterfit.run import FILES, Run
from afterfit.spec import SpecError, require
from afterfit.store.claims import Claims
from afterfit.store.index import Index
from afterfit.store.places import Place, find_place

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["Store"]

_FORMAT = 1  # of a store
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
        self._place: Place = find_place(os.fspath(url))
        self._there = self._check_format()
        self._claims = Claims(self._place)
        self._index = Index(self._place, self._doubt)

    @property
    def url(self) -> str:
        """Where the store is."""
        return self._place.url

    # --------------------------------------------------------------------------------------------------- runs

    def __contains__(self, id: str) -> bool:
        return is_id(id) and self._place.has(id)

    def ids(self) -> list[str]:
        """The names of all runs, sorted."""
        return sorted(self._place.stamps())

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

        A run that is not as it was written is moved to `damaged/` in the store, and `Damaged` is raised.
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
        return dict(sorted(self._place.sizes(id).items()))

    def check(self) -> dict[str, str]:
        """Read every run, and set aside those that are damaged: their names, with what is wrong."""
        self._place.sweep_up(_LEFT_BEHIND)
        wrong = {}
        for id in self.ids():
            if error := self._doubt(id):
                wrong[id] = str(error)
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
        observed quantity. Names with dots need double quotes.

        ```python
        store.query('SELECT "penalty.strength", median(t_gen) FROM runs GROUP BY 1 ORDER BY 1')
        store.query("SELECT id, max(norm_l2) FROM curves GROUP BY id")
        ```
        """
        import duckdb

        with duckdb.connect() as database:
            database.register("runs", self.summaries())
            if re.search(r"\bcurves\b", sql, re.IGNORECASE):
                self._add_curves(database)
            try:
                answer = database.sql(sql)
                require(answer is not None, f"the query {sql!r} asks nothing: begin with SELECT.")
                return answer.to_arrow_table()
            except duckdb.Error as error:
                hint = ' (a name with dots needs double quotes: "penalty.strength")' if "." in sql else ""
                raise SpecError(f"cannot answer {sql!r}: {error}{hint}") from None

    def _add_curves(self, database: Any) -> None:
        """The curves of all runs as a table, read by DuckDB itself, but only after their checksums are."""
        whole = []
        for id in self._index.table()["id"].to_pylist():
            files = self._place.read([f"{id}/curves.parquet", f"{id}/{SUMS}"])
            try:
                if len(files) < 2:
                    raise Damaged(f"run {id} is damaged: it has no curves.")
                check_sums(files[f"{id}/{SUMS}"], {"curves.parquet": files[f"{id}/curves.parquet"]}, f"run {id}")
            except Damaged:
                raise self._doubt(id) or SpecError(f"run {id} was changed while it was read: ask again.") from None
            whole.append(f"{self.url}/{id}/curves.parquet")
        if not whole:
            database.sql("CREATE TABLE curves (id VARCHAR, time DOUBLE, log10_time DOUBLE, step BIGINT)")
            return
        self._place.open_to(database)
        rows = database.read_parquet(whole, filename=True, union_by_name=True)
        rows.project("split_part(filename, '/', -2) AS id, * EXCLUDE (filename)").create_view("curves")

    # ------------------------------------------------------------------------------------------------- sweeps

    def keep_sweep(self, id: str, sweep: Mapping[str, Any]) -> None:
        """Write down what a sweep is, as plain data: `sweep-<id>.json`."""
        self._open()
        self._place.write(f"sweep-{id}.json", to_json(sweep))

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
        (content,) = self._place.read([f"sweep-{found[0]}.json"]).values()
        return json.loads(content)

    # ------------------------------------------------------------------------------------------------- claims

    def claim(self, ids: Iterable[str]) -> set[str]:
        """Those of `ids` that are not in the store and that nobody else is working on: now this object is.

        They are given up by `release`, at the end of the process, and at once if the process is killed (on other
        machines a minute later). What this object holds already, it gets again.
        """
        self._open()
        mine = self._claims.claim(id for id in ids if id not in self)
        done = {id for id in mine if id in self}  # by somebody who released them just now
        self._claims.release(done)
        return mine - done

    def release(self, ids: Iterable[str]) -> None:
        """Give up claims; those that this object does not hold are left alone."""
        self._claims.release(ids)

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
        except (ValueError, KeyError, TypeError):
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

    def _read(self, id: str) -> Run:
        """A run, looked at twice before it is called damaged: it may be replaced while it is read."""
        where = f"run {id}"
        for attempt in (1, 2):
            found = self._place.read(f"{id}/{name}" for name in self._place.sizes(id))
            require(bool(found) or id in self, f"there is no {where} in {self.url} any more.")
            try:
                run = Run.from_files({name.partition("/")[2]: content for name, content in found.items()}, where)
                if run.id != id:
                    raise Damaged(f"{where} is damaged: it is in the place of {run.id or 'a run without a name'}.")
                return run
            except Damaged:
                if attempt == 2:
                    raise
        raise AssertionError

    def _doubt(self, id: str) -> Damaged | None:
        """Look at a run, and set it aside if it is damaged: what is wrong, or None if it is well or gone."""
        try:
            self._read(id)
        except Damaged as error:
            return self._set_aside(id, error)
        except SpecError:
            if id in self:  # of a newer format
                raise
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
