"""Losses compared with shuffled labels and with a constant prediction."""
