"""An iteration of reinforcement learning: rollouts by a service, training on them, and the new weights on their way back.

  scenario.py   the file: two workloads on one machine, and how the iteration is put together
  layout.py     which GPU holds which part of the weights
  transfer.py   the way of weights and of offloaded state as an execution trace
  phases.py     the phases, simulated through the one runner
  iteration.py  the iteration composed of its phases, and what would change it
  result.py     the result as text and JSON
  page.py       the result as a page
"""
