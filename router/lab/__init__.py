"""Off the road: measure and train the reading, replay a history, tune to it. Nothing leaves the machine."""
