"""Rules that compare evaluations with training."""
