"""Run by Alembic: migrations go over the connection that `upgrade` was given, and see our own tables alone."""

from __future__ import annotations

from typing import Any, Literal

from alembic import context

from farm.store.migrations import VERSION_TABLE
from farm.store.tables import Base, UtcDateTime


def ours(_object: Any, name: str | None, type_: str, reflected: bool, compare_to: Any) -> bool:
    """Tables of others (the workflow engine's) share the database and are none of our business."""
    return not (type_ == "table" and reflected and compare_to is None and name not in Base.metadata.tables)


def render(type_: str, item: Any, autogen: Any) -> str | Literal[False]:
    """Our own column type by its short name, in revisions that Alembic writes."""
    if type_ == "type" and isinstance(item, UtcDateTime):
        autogen.imports.add("from farm.store.tables import UtcDateTime")
        return "UtcDateTime()"
    return False


connection = context.config.attributes["connection"]
context.configure(
    connection=connection,
    target_metadata=Base.metadata,
    version_table=VERSION_TABLE,
    include_object=ours,
    render_item=render,
    compare_type=True,
)
with context.begin_transaction():
    context.run_migrations()
