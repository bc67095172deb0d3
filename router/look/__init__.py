"""Deep looks over what fast did: one question after a turn that changed files, never an edit (`combine.look`)."""
