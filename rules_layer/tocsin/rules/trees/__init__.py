"""Rules that read boosted trees."""
