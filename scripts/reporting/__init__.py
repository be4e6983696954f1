"""Reports of a run or a sweep. Each chart is computed in one place and drawn in one place.

  source.py       a run's directory or a sweep's database, as points with their metrics
  charts.py       charts of many points: Pareto fronts, stacked parts of a time, heat maps
  lines.py        line charts of a quantity by size, one line for each setting; bar charts of alternative methods
  kinds.py        the charts of each kind of workload
  kernel_charts.py    rooflines, and kernel rates by size
  path_charts.py  critical paths of runs with --why
  run_charts.py   charts of one run: pipeline, links of the machine, pairs of GPUs
  markup.py       elements of HTML and SVG, scales and ticks
  draw.py         charts of many points as SVG
  draw_lines.py   lines and bars as SVG
  draw_run.py     charts of one run as SVG, and rooflines
  page.py         the page: charts, a table for each chart, the table of runs; with page.css, page.js and drawing.css
  scatter.py      predictions against measurements, for validate.py
  figures.py      the same drawings as SVG files, for documentation and papers
"""
