"""The composition root: a config → a house with everything in it. The only room that knows every other."""
