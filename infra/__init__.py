"""The deployment: one stack that composes one construct per capability."""
