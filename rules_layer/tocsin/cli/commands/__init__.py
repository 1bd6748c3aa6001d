"""The commands: one module for each, with its options and its help.

They import what they need when they run: ``--help`` is quick.
"""
