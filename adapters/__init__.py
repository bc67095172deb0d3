"""Ways to reach models, one file each, listed in `router.wiring.registry`."""
