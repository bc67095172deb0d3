"""What several routers share in one PostgreSQL database. Imported only where `shared.postgres` is set."""
