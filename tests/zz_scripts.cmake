# Tests of the scripts that read what the executables write (railyard_pytest comes from scripts.cmake, read before).
railyard_pytest(test_compare)
railyard_pytest(test_convergence)
railyard_pytest(test_digests)
railyard_pytest(test_sweep)
railyard_pytest(test_sweep_slurm)
railyard_pytest(test_scenario)
railyard_pytest(test_report)
railyard_pytest(test_report_browser)
railyard_pytest(test_tutorial)
railyard_pytest(test_draw_timeline)
set_tests_properties(test_sweep test_sweep_slurm PROPERTIES COST 100)  # they wait more than they work: first, beside the others
set_tests_properties(test_tutorial PROPERTIES COST 90 TIMEOUT 600)  # a minute of work for two processors
