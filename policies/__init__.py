"""One file, one policy. A policy reads a request and its signals and returns opinions; `router.wiring.registry` lists them."""
