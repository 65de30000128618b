"""A database as the first schema had it, made from one of today: the tables and columns that there were, same rows."""

from __future__ import annotations

from sqlalchemy import MetaData, create_engine, func, select, text

from farm.store.db import Database
from farm.store.migrations import VERSION_TABLE, upgrade
from farm.store.postgres import arguments

FIRST = "0001"


def make_old(new: Database, old_url: str) -> None:
    """Fill the empty database at `old_url` with the rows of `new`, as far as the first schema knows them."""
    old = Database(old_url)
    with old.engine.connect() as connection:
        upgrade(connection, FIRST)
    old.close()
    # Plain engines: what lies in the columns is copied as it is, through no type of ours.
    source = create_engine(new.url)
    target = create_engine(old_url, connect_args={} if new.is_sqlite else arguments())
    described, today = MetaData(), MetaData()
    described.reflect(target, only=lambda name, _: name != VERSION_TABLE)
    today.reflect(source, only=lambda name, _: name in described.tables)
    with source.connect() as reading, target.begin() as writing:
        for table in described.sorted_tables:
            columns = [today.tables[table.name].c[column.name] for column in table.columns]
            rows = [dict(row) for row in reading.execute(select(*columns)).mappings()]
            if rows:
                writing.execute(table.insert(), rows)
            if not new.is_sqlite and "id" in table.c:
                top = writing.execute(select(func.coalesce(func.max(table.c.id), 0))).scalar_one()
                writing.execute(text(f"SELECT setval(pg_get_serial_sequence('{table.name}', 'id'), {top + 1}, false)"))
    source.dispose()
    target.dispose()
