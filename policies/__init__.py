"""One file, one policy. A policy reads a request and its signals and answers opinions; `router.registry` names them."""
