"""Time to tokens of a training run: one simulated step, and the rare events of a run composed on top of it.

  operation.py   how the run is operated: checkpoints, failures, stragglers, evaluation, prices; from a YAML file and options
  step.py        the step, its checkpoint's bytes and the rates of copies, simulated through the one runner
  checkpoints.py what a checkpoint costs: the pause, the write beside the steps, the way back
  stragglers.py  distributions of a member's speed, and the maximum over members
  process.py     the run as a process of failures, step by step, from a seed
  formulas.py    closed forms: Young's and Daly's interval, the best one, goodput
  best.py        the best interval of the simulated process
  result.py      the result as text and JSON
  page.py        the result as a page
"""
