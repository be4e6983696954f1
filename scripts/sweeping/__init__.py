"""Sweeps: from a sweep file to points, from points to finished runs, from runs to a database.

  source.py       YAML with positions, for one clear line about what is wrong
  expressions.py  the expressions of a sweep file: arithmetic and comparisons, nothing else
  plan.py         the sweep file: axes, constraints, and the points they make
  identity.py     what a point's result depends on: its id
  store.py        the output directory: what is over, what is missing; the database and its exports
  database.py     the database, for those who only read it
  progress.py     the line that says how far it is
  backends.py     where points run: here, in a Slurm array, or through a command
  task.py         what one task of a cluster runs
"""
