"""Load curves of a serving scenario: how latency grows with the rate of requests, and the largest rate that keeps all objectives.

  student.py     quantiles of Student's t
  objectives.py  an objective: a metric or a percentile of a time of each request, and its limit
  judgement.py   whether a load keeps its objectives, as far as its requests can tell
  search.py      the largest rate that keeps them; knows no simulator
  runs.py        loads as points of a sweep, through the one runner
  scenario.py    what a scenario needs to be loaded at any rate
  cost.py        prices, and the cost of tokens
  result.py      the result as text, JSON and CSV
  batches.py     what a service does over time
  page.py        the result as a page
"""
