"""Stores that routers share in PostgreSQL, imported only where `shared.postgres` is set."""
