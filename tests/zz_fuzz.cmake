# Inputs that once crashed, and bounded runs of the fuzzers (railyard_pytest comes from scripts.cmake, read before).
foreach(test test_bad_inputs test_fuzz)
  railyard_pytest(${test})
  set_property(TEST ${test} APPEND PROPERTY ENVIRONMENT RAILYARD_BIN=${CMAKE_RUNTIME_OUTPUT_DIRECTORY})
endforeach()
