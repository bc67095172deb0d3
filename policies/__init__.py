"""One policy a file, listed in `router.wiring.registry`: it reads a request and its signals and returns opinions."""
