"""The control plane: what is not a create call. Each file is a panel of pages; `app` carries them, `wiring` lists them."""
