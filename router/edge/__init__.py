"""HTTP in: who may knock, which door, and the answer's way back."""
