"""Rules that compare predictions with a guess."""
