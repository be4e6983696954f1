railyard_test(upcoming railyard_vcd)
railyard_test(vcd_writer railyard_vcd)
railyard_test(vcd_view railyard_vcd)
set_tests_properties(vcd_view.gtkwave_reads_every_kind_of_signal PROPERTIES SKIP_REGULAR_EXPRESSION "skipped: ")
