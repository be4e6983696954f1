"""Reports of a run or a sweep: what is shown is computed once, and drawn once.

  source.py       a run's directory or a sweep's database, as points with their metrics
  charts.py       charts of many points: fronts, stacked parts of the time, heat maps
  lines.py        charts of a quantity by a size, a line for each setting, and bars by way
  kinds.py        which of these each kind of workload has
  kernel_charts.py    kernels under the roofs of their GPU, and by size
  path_charts.py  critical paths, where the run was made with --why
  run_charts.py   charts of one run: its pipeline, its machine's links, its pairs of GPUs
  markup.py       elements of HTML and SVG, scales and ticks
  draw.py         charts of many points as SVG
  draw_lines.py   lines and bars as SVG
  draw_run.py     charts of one run as SVG, and rooflines
  page.py         the page: charts, the table of each, the table of runs; page.css and page.js go into it, and drawing.css, the drawings' style
  scatter.py      predictions against measurements, of validate.py
  figures.py      the same drawings as files, for documentation and papers
"""
