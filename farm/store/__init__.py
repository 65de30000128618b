"""SQLAlchemy tables, queries, migrations and the artifact store: one module per noun."""
