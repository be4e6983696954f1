"""Reports of a run or a sweep: what is shown is computed once, and drawn twice.

  source.py       a run's directory or a sweep's database, as points with their metrics
  charts.py       charts of many points: fronts, stacked parts of the time, heat maps
  run_charts.py   charts of one run: its pipeline, its machine's links, its kernels under the roofline
  markup.py       elements of HTML and SVG, scales and ticks
  draw.py         charts of many points as SVG
  draw_run.py     charts of one run as SVG
  page.py         the page: charts, the table of each, the table of runs; page.css and page.js go into it
  figures.py      the same charts by matplotlib, for papers
"""
