"""What of a step is captured: losses, parameters, activations, inputs, samples."""
