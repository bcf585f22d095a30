"""The process that answers a question in SQL: `sql.py` starts it, and speaks to it through its pipes.

It loads DuckDB and Arrow alone, and so starts quickly. It hears the question, the table of runs, and where the curves
are or, of a store that is not on this machine, what they are. It says the answer, or why there is none.
"""

from __future__ import annotations

import itertools
import json
import os
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from typing import IO, TYPE_CHECKING, Any

if TYPE_CHECKING:
    import duckdb
    import pyarrow as pa

__all__ = ["as_stream", "receive", "send"]

_ROWS = 100_000  # of an answer that are looked at together
_QUESTIONS = ("SELECT", "EXPLAIN", "MULTI")  # as DuckDB names them; a PIVOT is several statements


def send(pipe: IO[bytes], content: bytes) -> None:
    """Write a message, with its length before it."""
    pipe.write(len(content).to_bytes(8, "little"))
    pipe.write(content)
    pipe.flush()


def receive(pipe: IO[bytes]) -> bytes:
    """Read a message; `EOFError` if nobody is there any more."""
    length = pipe.read(8)
    content = pipe.read(int.from_bytes(length, "little")) if len(length) == 8 else b""
    if len(length) < 8 or len(content) < int.from_bytes(length, "little"):
        raise EOFError
    return content


def as_stream(table: pa.Table) -> bytes:
    """A table as a message."""
    import pyarrow as pa

    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as stream:
        stream.write_table(table)
    return sink.getvalue().to_pybytes()


class _Refused(Exception):
    """A question that is not answered: the message says why."""


def main() -> None:
    incoming, outgoing = sys.stdin.buffer, os.fdopen(os.dup(1), "wb")
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # nothing else is printed into the pipe
    question = json.loads(receive(incoming))
    end = threading.Timer(question["seconds"], os._exit, [1])  # should nobody be there any more to end this
    end.daemon = True
    end.start()
    unread: list[str] = []
    answer, refusal = b"", ""
    try:
        answer = _answer(question, incoming, unread)
    except _Refused as error:
        refusal = str(error)
    except Exception as error:
        refusal = f"{type(error).__name__}: {error}"
    send(outgoing, json.dumps({"refusal": refusal, "unread": unread}).encode())
    send(outgoing, answer)
    os._exit(0)  # at once: libraries have nothing to put in order


def _answer(question: Mapping[str, Any], incoming: IO[bytes], unread: list[str]) -> bytes:
    """The answer as an Arrow stream; `unread` gets the names of runs whose curves are none."""
    import duckdb
    import pyarrow as pa

    sql, memory = question["sql"], question["memory"]
    with duckdb.connect(config=_locked(memory)) as database:
        database.register("runs", pa.ipc.open_stream(receive(incoming)).read_all())
        if question["curves"] is not None:
            database.register("curves", _all_curves(question, incoming, unread))
        database.execute("SET lock_configuration = true")
        try:
            _check(database, sql)
            table = _read(database.sql(sql), memory / 4)
        except duckdb.Error as error:
            raise _Refused(_refusal(error, sql)) from None
    return as_stream(table)


def _locked(memory: float) -> dict[str, Any]:
    """DuckDB without files, network, extensions and the variables of this program."""
    return {
        "enable_external_access": False,
        "autoinstall_known_extensions": False,
        "autoload_known_extensions": False,
        "allow_community_extensions": False,
        "allow_unsigned_extensions": False,
        "python_enable_replacements": False,
        "temp_directory": "",
        "memory_limit": f"{memory / 2:.0f}B",
        "threads": min(4, os.cpu_count() or 1),
    }


def _check(database: duckdb.DuckDBPyConnection, sql: str) -> None:
    """Refuse what is not one question."""
    kinds = [statement.type.name for statement in database.extract_statements(sql)]
    if not kinds:
        raise _Refused("it asks nothing: begin with SELECT.")
    for kind in kinds:
        if kind not in _QUESTIONS:
            raise _Refused(f"a query reads the tables runs and curves, and does nothing else, got {kind}.")
    if len(kinds) > 1:
        raise _Refused("it asks several questions: ask one at a time.")


def _refusal(error: duckdb.Error, sql: str) -> str:
    import duckdb

    said = " ".join(str(error).partition("\n\nLINE ")[0].split())
    if isinstance(error, duckdb.PermissionException) or "configuration has been locked" in said:
        return f"a query reads the tables runs and curves, and does nothing else ({said})."
    if isinstance(error, duckdb.OutOfMemoryException):
        return f"it takes more memory than a query may ({said})."
    hint = ' (a name with dots needs double quotes: "penalty.strength")' if "." in sql else ""
    return f"{said.removesuffix('.')}{hint}."


def _read(answer: duckdb.DuckDBPyRelation, limit: float) -> pa.Table:
    """All rows of an answer, if they are not too many."""
    import pyarrow as pa

    reader = answer.fetch_arrow_reader(_ROWS)
    batches, size = [], 0
    for batch in reader:
        batches.append(batch)
        size += batch.nbytes
        if size > limit:
            raise _Refused(f"its answer is larger than {limit / 1e9:g} GB: ask for less of it.")
    return pa.Table.from_batches(batches, reader.schema).rename_columns(_distinct(reader.schema.names))


def _distinct(names: Sequence[str]) -> list[str]:
    """Names of columns with those that come again made different: `id`, `id_1`."""
    given: dict[str, None] = {}
    for name in names:
        numbered = (f"{name}_{k}" for k in itertools.count(1))
        free = (other for other in numbered if other not in given and other not in names)
        given[next(free) if name in given else name] = None
    return list(given)


# ----------------------------------------------------------------------------------------------------- curves


def _all_curves(question: Mapping[str, Any], incoming: IO[bytes], unread: list[str]) -> Any:
    """The curves of all runs as one table, of which only what is asked for is read."""
    import pyarrow as pa
    import pyarrow.dataset as ds
    from pyarrow.fs import LocalFileSystem

    filesystem, format = LocalFileSystem(), ds.ParquetFileFormat()
    always = pa.schema({"id": "string", "time": "double", "log10_time": "double", "step": "int64"})
    parts, schemas = [], {}  # the schemas in order, each once
    for id, file in _files(question["curves"], incoming):
        where = {"filesystem": filesystem} if isinstance(file, str) else {}
        part = format.make_fragment(file, partition_expression=ds.field("id") == id, **where)
        try:
            schemas[_in_general(part.physical_schema)] = None
        except (pa.ArrowInvalid, OSError):
            unread.append(id)
        else:
            parts.append(part)
    schema = pa.unify_schemas([always, *schemas], promote_options="permissive")
    return ds.FileSystemDataset(parts, schema, format, filesystem)


def _files(curves: Mapping[str, str | None], incoming: IO[bytes]) -> Iterator[tuple[str, Any]]:
    """The curves of each run: a path, or what is in the file."""
    import pyarrow as pa

    for id, path in curves.items():
        yield id, path or pa.py_buffer(receive(incoming))


def _in_general(schema: pa.Schema) -> pa.Schema:
    """Lists of any length, for those of two models differ in it, and no notes."""
    import pyarrow as pa

    def of(kind: pa.DataType) -> pa.DataType:
        return pa.list_(of(kind.value_type)) if pa.types.is_fixed_size_list(kind) else kind

    return pa.schema([(field.name, of(field.type)) for field in schema])


if __name__ == "__main__":
    main()
