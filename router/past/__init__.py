"""Off the road: measure decisions on labelled data, replay a history, tune to it. Nothing leaves the machine."""
