# Tests of the scripts. Debian's own Python: a user's python3 need not have Debian's packages.
set(RAILYARD_PYTHON /usr/bin/python3 CACHE FILEPATH "Python that has Debian's python3-* packages")

# railyard_pytest(NAME) runs tests/NAME.py as one ctest entry; without pytest it is skipped.
function(railyard_pytest name)
  add_test(NAME ${name} COMMAND ${RAILYARD_PYTHON} -B -m pytest -q -rs -p no:cacheprovider ${CMAKE_CURRENT_SOURCE_DIR}/${name}.py)
  set_tests_properties(${name} PROPERTIES TIMEOUT 300 SKIP_REGULAR_EXPRESSION "No module named '?pytest")
endfunction()

find_program(RAILYARD_CLANG_FORMAT clang-format)
if(RAILYARD_CLANG_FORMAT)
  add_test(NAME formatting COMMAND ${PROJECT_SOURCE_DIR}/scripts/format --check)
endif()

railyard_pytest(test_make_trace)
railyard_pytest(test_setup_scripts)
railyard_pytest(test_show_waveform)
railyard_pytest(test_runner)
railyard_pytest(test_validate)
railyard_pytest(test_validate_rules)
railyard_pytest(test_validate_gpu)
railyard_pytest(test_validate_servers)
railyard_pytest(test_calibrate)
