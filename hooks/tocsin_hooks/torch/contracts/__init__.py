"""Contracts: conditions that hold for every training, and the checks that find breaches."""
