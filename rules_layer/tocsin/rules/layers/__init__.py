"""Rules that read weights, activations, and outputs of layers."""
