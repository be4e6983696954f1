# Writes OUTPUT, a C++ source that says which version and commit a build is of:
#   cmake -DVERSION=... -DSOURCE=... -DOUTPUT=... -P build_info.cmake
# Outside a git checkout the commit is "unknown"; one with changes ends in "-dirty".
cmake_minimum_required(VERSION 3.25)
find_program(git git)
set(commit "")
if(git AND EXISTS ${SOURCE}/.git)
  execute_process(COMMAND ${git} -C ${SOURCE} describe --always --dirty --abbrev=12 --exclude=* OUTPUT_VARIABLE commit OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
endif()
if(commit STREQUAL "")
  set(commit unknown)
endif()
file(CONFIGURE OUTPUT ${OUTPUT} @ONLY CONTENT "#include \"sc_main/build_info.h\"

namespace railyard {

const char* const kVersion = \"@VERSION@\";
const char* const kCommit = \"@commit@\";

}  // namespace railyard
")
