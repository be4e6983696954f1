"""Runs side by side: runs.py reads them, tables.py says what to look at, render.py writes text, Markdown and HTML."""
