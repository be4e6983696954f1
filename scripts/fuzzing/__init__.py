"""Fuzzers: mutated inputs, and random valid machines whose results must have certain properties.

  bases.py      small valid inputs of each kind of workload
  mutate.py     mutations: of trees by the grammar of scenarios, of text byte by byte, of whole files
  inputs.py     mutated inputs for the executables and for sweep.py, which must give a result or a one-line error
  outputs.py    mutated output files of a run, for the scripts that read these files
  importers.py  mutated files of Calculon and SimAI, for the scripts that import them
  machines.py   random valid machines and workloads
  properties.py properties that the results of these machines must have
  cases.py      a test case: creates it, runs it, and keeps its files if it fails
"""
