"""One file, one way to reach models. An adapter pushes an answer's bytes into a sink; `router.wiring.registry` names them."""
