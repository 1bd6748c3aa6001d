"""Reduces tensors to a few numbers on their device, and copies these to the host."""
