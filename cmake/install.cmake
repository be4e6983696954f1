# cmake --install: component runtime has the command, the executables, scripts and data; component dev the library with its headers.
# CPack makes a Debian package of each.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

# Runtime: a folder of the project's layout, whose scripts find all else beside them. A link leads to the command.
set(home ${CMAKE_INSTALL_LIBEXECDIR}/railyard)
install(TARGETS ${RAILYARD_PLATFORMS} railyard_serve RUNTIME DESTINATION ${home}/bin COMPONENT runtime)
install(DIRECTORY scripts DESTINATION ${home} COMPONENT runtime USE_SOURCE_PERMISSIONS
  PATTERN __pycache__ EXCLUDE
  # Tools of those who change the project.
  REGEX "/(build|digests\\.py|format|fuzz|fuzzing|install_packages|pages\\.py|quickstart|studies|test)$" EXCLUDE)
install(DIRECTORY scenarios validation docs python DESTINATION ${home} COMPONENT runtime PATTERN __pycache__ EXCLUDE)
install(DIRECTORY platforms/datasheets DESTINATION ${home}/platforms COMPONENT runtime)
install(FILES README.md LICENSE CHANGELOG.md DESTINATION ${CMAKE_INSTALL_DOCDIR} COMPONENT runtime)
install(CODE "
  set(root \"\$ENV{DESTDIR}\${CMAKE_INSTALL_PREFIX}\")
  file(MAKE_DIRECTORY \"\${root}/${CMAKE_INSTALL_BINDIR}\")
  file(CREATE_LINK ../${home}/scripts/railyard \"\${root}/${CMAKE_INSTALL_BINDIR}/railyard\" SYMBOLIC)
  foreach(page \"man|${CMAKE_INSTALL_MANDIR}/man1/railyard.1\" \"completion bash|${CMAKE_INSTALL_DATADIR}/bash-completion/completions/railyard\"
          \"completion zsh|${CMAKE_INSTALL_DATADIR}/zsh/site-functions/_railyard\")
    string(REGEX MATCH \"^(.*)[|](.*)$\" page \"\${page}\")
    separate_arguments(words UNIX_COMMAND \"\${CMAKE_MATCH_1}\")
    get_filename_component(folder \"\${root}/\${CMAKE_MATCH_2}\" DIRECTORY)
    file(MAKE_DIRECTORY \"\${folder}\")
    execute_process(COMMAND \"\${CMAKE_COMMAND}\" -E env PYTHONDONTWRITEBYTECODE=1 \"\${root}/${home}/scripts/railyard\" \${words}
      OUTPUT_FILE \"\${root}/\${CMAKE_MATCH_2}\" RESULT_VARIABLE status)
    if(status)
      message(WARNING \"railyard \${words}: \${status}; the command needs python3-yaml\")
    endif()
  endforeach()" COMPONENT runtime)

# Dev: two targets for users; archives of the rooms below them.
set(fabric railyard_systemc railyard_port_rule railyard_transport railyard_nvlink railyard_pcie railyard_infiniband railyard_kernels railyard_gpu
  railyard_platforms)
set(above railyard_deepep railyard_collective railyard_transformer railyard_requests railyard_scheduler railyard_schedules railyard_traces railyard_execution
  railyard_workload railyard_vcd railyard_trace_events railyard_probe railyard_chakra railyard_scenario railyard_run)
add_library(railyard_fabric INTERFACE)
target_link_libraries(railyard_fabric INTERFACE railyard_platforms)
target_compile_features(railyard_fabric INTERFACE cxx_std_17)
# A user's includes begin with railyard/; those of the headers themselves with the room.
target_include_directories(railyard_fabric INTERFACE $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}> $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}/railyard>)
set_target_properties(railyard_fabric PROPERTIES EXPORT_NAME fabric)
add_library(railyard_railyard INTERFACE)
target_link_libraries(railyard_railyard INTERFACE railyard_fabric railyard_run)
set_target_properties(railyard_railyard PROPERTIES EXPORT_NAME railyard)
# Modules that a scenario names: an interface in a header, nothing to link.
add_library(railyard_module INTERFACE)
target_link_libraries(railyard_module INTERFACE railyard_systemc)
target_compile_features(railyard_module INTERFACE cxx_std_17)
target_include_directories(railyard_module INTERFACE $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
set_target_properties(railyard_module PROPERTIES EXPORT_NAME module)
install(TARGETS ${fabric} ${above} railyard_fabric railyard_railyard railyard_module EXPORT RailyardTargets ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR}/railyard COMPONENT dev)
set(config ${CMAKE_INSTALL_LIBDIR}/cmake/Railyard)
install(EXPORT RailyardTargets NAMESPACE Railyard:: DESTINATION ${config} COMPONENT dev)
if(SystemCLanguage_FOUND)
  set(RAILYARD_FIND_SYSTEMC "find_dependency(SystemCLanguage)")
else()
  set(RAILYARD_FIND_SYSTEMC "find_dependency(PkgConfig)\npkg_check_modules(SystemC REQUIRED QUIET IMPORTED_TARGET systemc)")
endif()
configure_package_config_file(cmake/RailyardConfig.cmake.in ${CMAKE_BINARY_DIR}/RailyardConfig.cmake INSTALL_DESTINATION ${config})
write_basic_package_version_file(${CMAKE_BINARY_DIR}/RailyardConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_BINARY_DIR}/RailyardConfig.cmake ${CMAKE_BINARY_DIR}/RailyardConfigVersion.cmake DESTINATION ${config} COMPONENT dev)
install(DIRECTORY models/ platforms sc_main DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/railyard COMPONENT dev FILES_MATCHING PATTERN "*.h"
  REGEX "/(platforms/datasheets|sc_main/serve)$" EXCLUDE)

set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME railyard)
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "performance model of machines with many GPUs that run large language models")
set(CPACK_PACKAGE_CONTACT "the authors of Railyard <railyard@localhost>")
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_STRIP_FILES ON)
set(CPACK_COMPONENTS_ALL runtime dev)
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_RUNTIME_PACKAGE_NAME railyard)
set(CPACK_DEBIAN_RUNTIME_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_RUNTIME_PACKAGE_DEPENDS "python3, python3-yaml")
set(CPACK_DEBIAN_RUNTIME_PACKAGE_RECOMMENDS "python3-numpy, python3-scipy")
set(CPACK_DEBIAN_DEV_PACKAGE_NAME railyard-dev)
set(CPACK_DEBIAN_DEV_PACKAGE_DEPENDS
  "libsystemc-dev, libyaml-cpp-dev, libcli11-dev, nlohmann-json3-dev, libfmt-dev, zlib1g-dev, libprotobuf-dev, protobuf-compiler, pkg-config")
include(CPack)
