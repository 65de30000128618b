"""Statements that are made once and run often.

Making a statement and asking the ORM to run it costs many times what the database takes for it, and so does executing
it through SQLAlchemy alone. What every lease and every change does is therefore written as constants of its module;
`run` compiles each of them once and hands its text and values to the driver itself, on the session's own connection
and in its transaction. Types are converted as SQLAlchemy does.
"""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from sqlalchemy import Connection, Dialect, Executable
from sqlalchemy.engine.interfaces import DBAPICursor
from sqlalchemy.exc import DBAPIError, MultipleResultsFound, NoResultFound
from sqlalchemy.orm import Session
from sqlalchemy.sql.compiler import SQLCompiler

_Process = Callable[[Any], Any]
#: Where a session keeps the connection of its transaction: asking it each time costs as much as the statement.
_CONNECTION = "farm_connection"


class Rows:
    """What a statement gave, read whole."""

    __slots__ = ("_rows",)

    def __init__(self, rows: list[Any]) -> None:
        self._rows = rows

    def __iter__(self) -> Iterator[Any]:
        return iter(self._rows)

    def all(self) -> list[Any]:
        return self._rows

    def first(self) -> Any:
        return self._rows[0] if self._rows else None

    def one(self) -> Any:
        """The one row. Raises NoResultFound, MultipleResultsFound."""
        if len(self._rows) != 1:
            raise (MultipleResultsFound if self._rows else NoResultFound)("one row was expected")
        return self._rows[0]

    def scalar_one(self) -> Any:
        return self.one()[0]

    def scalar_one_or_none(self) -> Any:
        return self.one()[0] if self._rows else None

    def scalars(self) -> list[Any]:
        return [row[0] for row in self._rows]


def run(session: Session, statement: Executable, parameters: Mapping[str, Any]) -> Rows:
    """Run a constant of a module in the session's transaction, after what the session has not written yet."""
    session.flush()
    connection: Connection | None = session.info.get(_CONNECTION)
    if connection is None or connection.closed or not connection.in_transaction():
        connection = session.info[_CONNECTION] = session.connection()
    key = (statement, connection.dialect.name, tuple(parameters))
    prepared = _KNOWN.get(key)
    if prepared is None:
        prepared = _KNOWN[key] = _Prepared(statement, connection.dialect, list(parameters))
    return prepared.run(connection, parameters)


class _Prepared:
    """A statement's text for one database, and how its values go in and come out."""

    def __init__(self, statement: Executable, dialect: Dialect, names: list[str]) -> None:
        compiled = statement.compile(dialect=dialect, column_keys=names)  # type: ignore[attr-defined]
        assert isinstance(compiled, SQLCompiler)
        self._sql = str(compiled)
        defaults = {column.key: column.default for column in compiled.insert_prefetch}
        values = []
        for bind, name in compiled.bind_names.items():
            assert name not in compiled.post_compile_params, "an expanding list has no fixed text"
            process = bind.type.dialect_impl(dialect).bind_processor(dialect)
            given = name if name in names else bind.key if bind.key in names else None
            constant = bind.value if given is None else None
            make = None
            if given is None and name in defaults:
                default: Any = defaults[name]
                make, constant = (default.arg, None) if default.is_callable else (None, default.arg)
            values.append((name, given, constant, make, process))
        by_name = {entry[0]: entry for entry in values}
        self._positional = compiled.positiontup is not None
        self._values = [by_name[name] for name in compiled.positiontup or by_name]
        returned = list(getattr(statement, "exported_columns", ()))
        self._types = [column.type.dialect_impl(dialect) for column in returned]
        fields = [column.key or f"column_{n}" for n, column in enumerate(returned)]
        self._row: Any = namedtuple("Row", fields, rename=True) if fields else None
        self._out: list[tuple[int, _Process]] | None = None

    def run(self, connection: Connection, parameters: Mapping[str, Any]) -> Rows:
        made: dict[str, Any] | list[Any]
        found = []
        for name, given, constant, make, process in self._values:
            value = parameters[given] if given is not None else make(None) if make is not None else constant
            found.append((name, process(value) if process is not None else value))
        made = [value for _, value in found] if self._positional else dict(found)
        raw = connection.connection.cursor()
        try:
            raw.execute(self._sql, made)
            return Rows(self._read(raw, connection.dialect) if self._row is not None else [])
        except connection.dialect.loaded_dbapi.Error as error:
            raise self._wrapped(error, connection, made, raw) from error
        finally:
            raw.close()

    def _read(self, cursor: DBAPICursor, dialect: Dialect) -> list[Any]:
        rows = cursor.fetchall()
        if not rows:
            return []
        if self._out is None:
            codes = [column[1] for column in cursor.description or ()]
            out = [kind.result_processor(dialect, code) for kind, code in zip(self._types, codes, strict=True)]
            self._out = [(n, process) for n, process in enumerate(out) if process is not None]
        made = []
        for row in rows:
            values = list(row)
            for n, process in self._out:
                values[n] = process(values[n])
            made.append(self._row._make(values))
        return made

    def _wrapped(self, error: Any, connection: Connection, made: Any, cursor: DBAPICursor) -> Exception:
        """The error as SQLAlchemy's callers know it; a connection that broke is not used again."""
        dialect = connection.dialect
        broken = dialect.is_disconnect(error, connection.connection.dbapi_connection, cursor)
        if broken:
            connection.invalidate(error)
        kind = dialect.loaded_dbapi.Error
        wrapped = DBAPIError.instance(self._sql, made, error, kind, connection_invalidated=broken, dialect=dialect)
        assert isinstance(wrapped, Exception)
        return wrapped


#: Statements are constants: there are as many entries as there are of them.
_KNOWN: dict[tuple[Executable, str, tuple[str, ...]], _Prepared] = {}
