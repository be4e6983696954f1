"""Finds the fastest mapping of a training step onto a machine (plan.py)."""
