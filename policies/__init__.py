"""One file, one policy. A policy reads a request and its signals and returns opinions; `router.registry` lists them."""
