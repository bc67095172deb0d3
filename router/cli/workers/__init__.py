"""`tandem serve --workers`: a parent that starts workers and looks after them, and what each worker says to it."""
