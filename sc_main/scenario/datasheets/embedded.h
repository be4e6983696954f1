// The shipped datasheets' text, generated into the library by embed.cmake.
#pragma once

#include <cstddef>

namespace railyard::scenario {

struct EmbeddedFile {
  const char* path;  ///< under platforms/datasheets, without ".yaml": "gpus/L40S"
  const char* text;
};

extern const EmbeddedFile kEmbeddedFiles[];
extern const std::size_t kEmbeddedFileCount;

}  // namespace railyard::scenario
