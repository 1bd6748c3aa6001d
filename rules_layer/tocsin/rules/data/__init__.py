"""Rules that read the samples that a model trains on."""
