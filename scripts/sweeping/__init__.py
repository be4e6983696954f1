"""Sweeps: from a sweep file to points, from points to finished runs, from runs to a database.

  expressions.py  the expressions of a sweep file: arithmetic and comparisons only
  plan.py         the sweep file: axes, constraints, and the points that follow from them
  identity.py     the id of a point: a hash of all inputs of its result
  store.py        the output directory: finished and missing points; the database and its exports
  database.py     reads the database
  progress.py     the progress line
  backends.py     where points run: on this computer, in a Slurm array, or through a command
  task.py         the program that a task of a cluster runs
  kept.py         runs of any points, which are kept as those of a sweep
  whole.py        the options of a sweep, and running all of its points
"""
