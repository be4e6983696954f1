railyard_test(vcd_writer railyard_vcd)
railyard_test(vcd_view railyard_vcd)
