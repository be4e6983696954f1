"""Plans of serving: how many of which GPU keep the objectives at a rate of requests. `plan.py serving` uses it.

  command.py   options, and the steps of a plan
  space.py     GPUs, machines that hold them, shapes of instances, and which fit into memory
  fleet.py     a candidate: instances of one shape on one GPU, and its scenario
  estimate.py  the largest rates of single instances by short runs, and the candidates that follow
  sizes.py     how many instances it takes, and what would change that
  simulate.py  loads of scenarios, kept in the folder of the plan; several searches go on together
  decision.py  the result as text, JSON, CSV and page
"""
