"""What happens beside the road: measure the decision on labelled turns, and fit the trained reading to them."""
