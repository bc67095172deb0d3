"""Short-lived state that routers share in a Valkey or Redis server."""
