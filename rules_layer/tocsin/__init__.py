"""Tocsin."""
