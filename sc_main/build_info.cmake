# Writes OUTPUT, a C++ source that says which version and commit a build is of:
#   cmake -DVERSION=... -DSOURCE=... -DOUTPUT=... -P build_info.cmake
# The version has the number of commits since its tag: 0.1.0+12. A commit with changes ends in "-dirty". In an archive that git made, the
# commit is in .git_archival.txt; elsewhere it is "unknown".
cmake_minimum_required(VERSION 3.25)
find_program(git git)
set(commit "")
if(git AND EXISTS ${SOURCE}/.git)
  execute_process(COMMAND ${git} -C ${SOURCE} describe --always --dirty --abbrev=12 --exclude=* OUTPUT_VARIABLE commit OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
  execute_process(COMMAND ${git} -C ${SOURCE} rev-list --count v${VERSION}..HEAD OUTPUT_VARIABLE since OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
  if(since GREATER 0)
    string(APPEND VERSION "+${since}")
  endif()
elseif(EXISTS ${SOURCE}/.git_archival.txt)
  file(STRINGS ${SOURCE}/.git_archival.txt commit REGEX "^[0-9a-f]+$" LIMIT_COUNT 1)
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
