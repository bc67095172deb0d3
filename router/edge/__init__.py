"""HTTP in: which requests are let in, by which route, and how an answer or a refusal goes back."""
