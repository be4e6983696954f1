#include "sc_main/user_library.h"

#include <dlfcn.h>
#include <fmt/format.h>
#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <filesystem>

#include "sc_main/scenario/table/words.h"

namespace railyard {

namespace {

using scenario::in_quotes;
using scenario::suggestion;
using transport::ModuleLibrary;
using transport::ModuleParameter;
using transport::ModuleSocket;

const ModuleLibrary& load(const ModuleSpec& spec) {
  const std::string key = spec.key + ".library: ";
  const auto refuse = [&](const std::string& why) { throw InputError(spec.library_origin, key + why); };
  std::error_code error;
  const std::filesystem::path file = std::filesystem::absolute(spec.library, error);
  if (error || !std::filesystem::is_regular_file(file, error)) refuse("there is no file " + in_quotes(spec.library));
  void* const handle = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) refuse(fmt::format("cannot be loaded: {}", dlerror()));
  void* const entry = dlsym(handle, transport::kModuleEntry);
  if (entry == nullptr)
    refuse(fmt::format("{} does not export {}(); docs/library.md", in_quotes(spec.library), transport::kModuleEntry));
  const ModuleLibrary* const library = reinterpret_cast<const ModuleLibrary* (*)()>(entry)();
  if (library == nullptr) refuse(in_quotes(spec.library) + " has no module");
  if (library->version != transport::kModuleInterface)
    refuse(fmt::format("{} was built for version {} of module_library.h; accepted: version {}", in_quotes(spec.library),
                       library->version, transport::kModuleInterface));
  return *library;
}

std::vector<std::string> read_values(const ModuleSpec& spec, const ModuleLibrary& library) {
  const std::string key = spec.key + ".parameters";
  const ModuleParameter* const all = library.parameters;
  std::vector<std::string> names;
  for (std::uint32_t p = 0; p < library.parameter_count; ++p) names.emplace_back(all[p].name);
  for (const ModuleSpec::Value& value : spec.parameters)
    if (std::find(names.begin(), names.end(), value.parameter) == names.end())
      throw InputError(value.origin, fmt::format("{}.{}: the module has no such parameter{}", key, value.parameter,
                                                 names.empty() ? "; it has none" : suggestion(value.parameter, names)));
  std::vector<std::string> values;
  for (std::uint32_t p = 0; p < library.parameter_count; ++p) {
    const auto set = std::find_if(spec.parameters.begin(), spec.parameters.end(),
                                  [&](const ModuleSpec::Value& value) { return value.parameter == all[p].name; });
    if (set == spec.parameters.end()) {
      if (all[p].fallback == nullptr)
        throw InputError(spec.origin, fmt::format("{}.{}: is required by the module", key, all[p].name));
      values.emplace_back(all[p].fallback);
      continue;
    }
    values.push_back(set->text);
    if (all[p].kind == ModuleParameter::Kind::text) continue;
    char* end = nullptr;
    const double number = std::strtod(set->text.c_str(), &end);
    if (set->text.empty() || *end != '\0' || !(number >= all[p].least && number <= all[p].most))
      throw InputError(set->origin, fmt::format("{}.{}: expected a number from {} to {}, got {}", key, all[p].name,
                                                all[p].least, all[p].most, in_quotes(set->text)));
  }
  return values;
}

/// Names that the library states: each is a column in files, and of one socket.
std::vector<std::string> socket_names(const ModuleSpec& spec, const ModuleLibrary& library) {
  const auto refuse = [&](const std::string& why) {
    throw InputError(spec.library_origin, fmt::format("{}.library: {} {}", spec.key, in_quotes(spec.library), why));
  };
  if (library.socket_count == 0) refuse("states no socket");
  std::vector<std::string> names;
  for (std::uint32_t s = 0; s < library.socket_count; ++s) {
    const std::string name = library.sockets[s].name;
    const bool is_word = !name.empty() && std::all_of(name.begin(), name.end(),
                                                      [](unsigned char c) { return std::isalnum(c) != 0 || c == '_'; });
    if (!is_word || name == "device")
      refuse("states a socket " + in_quotes(name) + "; accepted: letters, digits and _, but not device");
    if (std::find(names.begin(), names.end(), name) != names.end()) refuse("states two sockets " + in_quotes(name));
    names.push_back(name);
  }
  return names;
}

std::vector<UserLibrary::Socket> read_sockets(const ModuleSpec& spec, const ModuleLibrary& library) {
  const std::vector<std::string> names = socket_names(spec, library);
  const std::string key = spec.key + ".at";
  for (const ModuleSpec::Place& place : spec.at)
    if (!place.socket.empty() && std::find(names.begin(), names.end(), place.socket) == names.end())
      throw InputError(place.origin, fmt::format("{}.{}: the module has no such socket{}", key, place.socket,
                                                 suggestion(place.socket, names)));
  std::vector<UserLibrary::Socket> sockets;
  for (std::uint32_t s = 0; s < library.socket_count; ++s) {
    const auto place = std::find_if(spec.at.begin(), spec.at.end(), [&](const ModuleSpec::Place& at) {
      return at.socket.empty() || at.socket == names[s];
    });
    if (place == spec.at.end())
      throw InputError(spec.at_origin, fmt::format("{}.{}: is required: a place for each socket of the module ({})",
                                                   key, names[s], scenario::joined(names)));
    sockets.push_back({names[s], library.sockets[s].kind, *place, place->socket.empty() ? key : key + "." + names[s]});
  }
  return sockets;
}

}  // namespace

UserLibrary::UserLibrary(const ModuleSpec& spec)
    : entry_(&load(spec)), values_(read_values(spec, *entry_)), sockets_(read_sockets(spec, *entry_)) {}

}  // namespace railyard
