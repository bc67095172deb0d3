"""The live page: what browsers see of requests as they happen."""
