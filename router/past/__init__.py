"""Off the road: what a history was worth, and how it would be decided today. Nothing leaves the machine."""
