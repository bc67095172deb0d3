"""Long runs against a real `tandem serve`. `make soak` runs them by hand, and CI runs two minutes of them."""
