"""Runs side by side: runs.py reads them, labels.py says what they are called, tables.py says what to look at, render.py writes
text, Markdown and HTML."""
