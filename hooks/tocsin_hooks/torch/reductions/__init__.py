"""Tensors reduced to a few numbers where they are, and brought to the host."""
