foreach(test ring direct graphs)
  railyard_test(collective_${test} railyard_collective railyard_infiniband)
endforeach()
foreach(test jobs pipeline gates handoff admission host events repeatable replay)
  railyard_test(workload_${test} railyard_run)
endforeach()

railyard_test(critical_path railyard_run)

# The executables from outside.
foreach(test test_platforms test_results test_record test_classes test_kinds test_kernel_kind test_layer_kind test_overlap_kind test_profile test_zero_times test_timeline test_why test_far_peers test_observers test_trace_processor test_kineto test_waveform_options test_validation_targets test_collective_sizes)
  railyard_pytest(${test})
  set_property(TEST ${test} APPEND PROPERTY ENVIRONMENT RAILYARD_BIN=${CMAKE_RUNTIME_OUTPUT_DIRECTORY})
endforeach()
