"""Tries the program as nobody would: mutated inputs, and random valid machines whose results must have certain properties.

  bases.py      small right inputs of every kind
  mutate.py     what is done to them: trees by the grammar, text byte by byte, files as a whole
  inputs.py     mutated inputs for the executables and the sweeper: a result, or one line that says why not
  outputs.py    mutated files of a run for the scripts that read them
  machines.py   random valid machines and workloads
  properties.py what must hold of them
  cases.py      a case, running it, and keeping those that fail
"""
