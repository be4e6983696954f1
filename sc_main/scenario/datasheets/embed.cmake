# Writes OUTPUT, a C++ source that holds the text of every datasheet: cmake -DFOLDER=... -DOUTPUT=... -P embed.cmake
file(GLOB_RECURSE files RELATIVE ${FOLDER} ${FOLDER}/*.yaml)
list(SORT files)
set(entries "")
foreach(file IN LISTS files)
  file(READ ${FOLDER}/${file} text)
  string(REGEX REPLACE "\\.yaml$" "" path "${file}")
  string(APPEND entries "    {\"${path}\", R\"yaml(${text})yaml\"},\n")
endforeach()
file(WRITE ${OUTPUT} "#include \"sc_main/scenario/datasheets/embedded.h\"

namespace railyard::scenario {

const EmbeddedFile kEmbeddedFiles[] = {
${entries}};
const std::size_t kEmbeddedFileCount = sizeof(kEmbeddedFiles) / sizeof(kEmbeddedFiles[0]);

}  // namespace railyard::scenario
")
