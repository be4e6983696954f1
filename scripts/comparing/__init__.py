"""Comparison of runs: runs.py reads them, labels.py makes their labels, tables.py makes the tables, render.py writes text,
Markdown and HTML."""
