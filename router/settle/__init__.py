"""What is made of a request when it is over: its entry, and what the entry says when it is asked."""
