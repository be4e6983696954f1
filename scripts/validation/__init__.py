"""Validation: measured rows become scenarios, runs, and errors.

rows.py reads the tables. A class of rows (fabric.py) maps each to an experiment by rules on its columns; systems.py knows what
the names of machines mean. experiment.py merges rows that differ in size only into one run, comparison.py compares, figures.py holds
the statistics, report.py writes them. A class is a module with TITLE, TABLES (its default tables under validation/),
map_row(row) -> Experiment and point_name(row, experiment). It may have check(row), which throws Incomparable for rows that are set aside
(set_aside.py), of_class(rows): those of its tables that belong to it, targets(outcomes): lines of its own for the digest, and
charts(outcomes): pictures of its own.
"""

from . import curves, energy, fabric, gpu, servers, serving, training

CLASSES = {
    "fabric": fabric,
    "gpu": gpu,
    "servers": servers.with_host(True, "Whole servers at low concurrency, with the hosts of their engines"),
    "servers_no_host": servers.with_host(False, "Whole servers at low concurrency, without a host"),
    "serving": serving,
    "training": training,
    "energy": energy,
    "curves": curves,
}
