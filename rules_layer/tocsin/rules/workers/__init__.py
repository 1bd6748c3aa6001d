"""Rules that compare the workers of a distributed training."""
