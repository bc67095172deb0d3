"""`config.yaml` → frozen models, checked whole and reported whole."""
