"""Rules that read the curve of a loss."""
