"""Statements that are made once and run often.

Making a statement and asking the ORM to run it costs many times what the database takes for it, and so does executing
it through SQLAlchemy alone. What every lease and every change does is therefore written as constants of its module;
`run` compiles each of them once and hands its text and values to the driver itself, on the session's own connection
and in its transaction. Types are converted as SQLAlchemy does.
"""

from __future__ import annotations

import re
from collections import namedtuple
from collections.abc import Callable, Iterator, Mapping, Sequence
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
    connection = _connection(session)
    return _prepared(statement, connection, parameters).run(connection, parameters)


def ask(session: Session, statement: Executable) -> Rows:
    """Run a constant that reads no row (the time): what the session has not written yet may stay so."""
    connection = _connection(session)
    return _prepared(statement, connection, {}).run(connection, {})


def run_together(session: Session, parts: Sequence[tuple[Executable, Mapping[str, Any]]]) -> Rows:
    """Run writes that neither see each other nor touch a row twice; what the last of them returns.

    On PostgreSQL they are one statement, hence one journey to the server and back.
    """
    session.flush()
    connection = _connection(session)
    found = [_prepared(statement, connection, parameters) for statement, parameters in parts]
    if len(found) == 1 or not found[0].named:
        return [one.run(connection, values) for one, (_, values) in zip(found, parts, strict=True)][-1]
    key = tuple(found)
    together = _TOGETHER.get(key)
    if together is None:
        together = _TOGETHER[key] = _Together(found)
    return together.run(connection, [values for _, values in parts])


def _connection(session: Session) -> Connection:
    connection: Connection | None = session.info.get(_CONNECTION)
    if connection is None or connection.closed or not connection.in_transaction():
        connection = session.info[_CONNECTION] = session.connection()
    return connection


def _prepared(statement: Executable, connection: Connection, parameters: Mapping[str, Any]) -> _Prepared:
    key = (statement, connection.dialect.name, tuple(parameters))
    prepared = _KNOWN.get(key)
    if prepared is None:
        prepared = _KNOWN[key] = _Prepared(statement, connection.dialect, list(parameters))
    return prepared


class _Prepared:
    """A statement's text for one database, and how its values go in and come out."""

    def __init__(self, statement: Executable, dialect: Dialect, names: list[str]) -> None:
        compiled = statement.compile(dialect=dialect, column_keys=names)  # type: ignore[attr-defined]
        assert isinstance(compiled, SQLCompiler)
        self.sql = str(compiled)
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
        self.named = compiled.positiontup is None
        self._values = [by_name[name] for name in compiled.positiontup or by_name]
        returned = list(getattr(statement, "exported_columns", ()))
        self._types = [column.type.dialect_impl(dialect) for column in returned]
        fields = [column.key or f"column_{n}" for n, column in enumerate(returned)]
        self._row: Any = namedtuple("Row", fields, rename=True) if fields else None
        self._out: list[tuple[int, _Process]] | None = None

    def run(self, connection: Connection, parameters: Mapping[str, Any]) -> Rows:
        found = self.values(parameters)
        return self.execute(connection, self.sql, dict(found) if self.named else [value for _, value in found])

    def values(self, parameters: Mapping[str, Any]) -> list[tuple[str, Any]]:
        """(name in the text, value as the driver takes it), in the text's order."""
        found = []
        for name, given, constant, make, process in self._values:
            value = parameters[given] if given is not None else make(None) if make is not None else constant
            found.append((name, process(value) if process is not None else value))
        return found

    def execute(self, connection: Connection, sql: str, made: dict[str, Any] | list[Any]) -> Rows:
        """Run `sql`, which ends in this statement, and read what this statement returns."""
        raw = connection.connection.cursor()
        try:
            raw.execute(sql, made)
            return Rows(self._read(raw, connection.dialect) if self._row is not None else [])
        except connection.dialect.loaded_dbapi.Error as error:
            raise _wrapped(error, connection, sql, made, raw) from error
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


class _Together:
    """Several writes as one statement: all but the last are parts of its WITH."""

    def __init__(self, parts: Sequence[_Prepared]) -> None:
        self._parts = tuple(parts)
        texts = [_NAME.sub(rf"%(p{n}_\1)s", part.sql) for n, part in enumerate(parts)]
        heads = ", ".join(f"p{n} AS ({text})" for n, text in enumerate(texts[:-1]))
        self._sql = f"WITH {heads} {texts[-1]}"

    def run(self, connection: Connection, parameters: Sequence[Mapping[str, Any]]) -> Rows:
        made = {
            f"p{n}_{name}": value
            for n, (part, given) in enumerate(zip(self._parts, parameters, strict=True))
            for name, value in part.values(given)
        }
        return self._parts[-1].execute(connection, self._sql, made)


def _wrapped(error: Any, connection: Connection, sql: str, made: Any, cursor: DBAPICursor) -> Exception:
    """The error as SQLAlchemy's callers know it; a connection that broke is not used again."""
    dialect = connection.dialect
    broken = dialect.is_disconnect(error, connection.connection.dbapi_connection, cursor)
    if broken:
        connection.invalidate(error)
    kind = dialect.loaded_dbapi.Error
    wrapped = DBAPIError.instance(sql, made, error, kind, connection_invalidated=broken, dialect=dialect)
    assert isinstance(wrapped, Exception)
    return wrapped


#: A named value in the text of a statement for PostgreSQL.
_NAME = re.compile(r"%\((\w+)\)s")
#: Statements are constants: there are as many entries as there are of them.
_KNOWN: dict[tuple[Executable, str, tuple[str, ...]], _Prepared] = {}
#: What is written together comes in few shapes (farm.store.appended bounds them).
_TOGETHER: dict[tuple[_Prepared, ...], _Together] = {}
