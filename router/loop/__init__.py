"""How work is scheduled on the event loop. None of it changes an answer, so a reader may skip this room."""
