"""Capture of a step: losses, parameters, activations, inputs, samples."""
