"""What a script calls between the outputs of a model and its updates."""
