"""What pages and API show: frozen dataclasses, each made with a constant number of queries.

One module per noun. Every function takes an open SQLAlchemy `Session` (read-only is enough) and, where something is
relative to a time, `now`. Nothing here writes, and nothing here decides: availability, outcomes and spreads come from
farm.domain.
"""
