"""The calls of a script between the outputs of a model and its updates."""
