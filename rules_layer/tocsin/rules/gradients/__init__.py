"""Rules that read gradients, updates, and learning rates."""
