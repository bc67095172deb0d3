"""What several routers share from one moment to the next, in a Valkey or Redis server."""
