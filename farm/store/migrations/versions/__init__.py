"""One module per change of the schema, in order; Alembic runs them."""
