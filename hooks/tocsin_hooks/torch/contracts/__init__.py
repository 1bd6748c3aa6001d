"""Contracts: conditions that hold for every training, and how a breach is seen."""
