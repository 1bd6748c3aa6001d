"""Builds the dependencies of each deployed function from its settings and real clients.

A module for each function: it loads what that function needs, and no more.
"""
