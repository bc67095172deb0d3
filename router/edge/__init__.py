"""HTTP in: routes, admission, and the way an answer or a refusal goes back."""
