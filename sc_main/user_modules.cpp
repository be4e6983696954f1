#include "sc_main/user_modules.h"

#include <dlfcn.h>
#include <fmt/format.h>
#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <set>

#include "sc_main/scenario/table/words.h"
#include "transport/edge/generic_payload_adapter.h"
#include "transport/edge/module_library.h"
#include "workload/traffic.h"

namespace railyard {

namespace {

using scenario::in_quotes;
using scenario::suggestion;
using transport::ModuleLibrary;
using transport::ModuleParameter;
using transport::Window;

/// Windows of a module: of its target socket, then of its initiator socket.
constexpr Window kWindowsOfModule = 2;

/// Stays loaded: its code runs until the process ends.
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

/// What the scenario sets of the library's parameters, or their defaults.
std::vector<std::string> values_of(const ModuleSpec& spec, const ModuleLibrary& library) {
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

struct Branch {
  std::uint32_t server = 0, branch = 0;
};

Branch branch_named(const ModuleSpec& spec, const platforms::Machine& machine) {
  std::vector<std::string> names;
  for (std::uint32_t s = 0; s < machine.servers().size(); ++s)
    for (std::uint32_t b = 0; b < platforms::branches_of(machine.spec().board); ++b) {
      names.emplace_back(machine.servers()[s]->switch_at(b).name());
      if (names.back() == spec.at) return {s, b};
    }
  const std::string near = scenario::nearest(spec.at, names);
  throw InputError(spec.at_origin, fmt::format("{}.at: {} has no place for devices {}; accepted: {} to {}{}", spec.key,
                                               machine.spec().board.name, in_quotes(spec.at), names.front(),
                                               names.back(), near.empty() ? "" : " (did you mean '" + near + "'?)"));
}

/// The first port of a module that nobody has connected; null: there is none.
const sc_core::sc_object* unbound_in(const sc_core::sc_object& module) {
  std::set<const sc_core::sc_port_base*> of_sockets;  // backward paths of target sockets are ports, too
  for (sc_core::sc_object* const child : module.get_child_objects()) {
    auto* const socket = dynamic_cast<tlm::tlm_base_socket_if*>(child);
    if (socket == nullptr) continue;
    of_sockets.insert(&socket->get_base_port());
    if (socket->get_base_port().bind_count() == 0) return child;
  }
  for (sc_core::sc_object* const child : module.get_child_objects()) {
    auto* const port = dynamic_cast<sc_core::sc_port_base*>(child);
    if (port != nullptr && of_sockets.count(port) == 0 && port->bind_count() == 0) return child;
    if (const sc_core::sc_object* const below = unbound_in(*child)) return below;
  }
  return nullptr;
}

}  // namespace

class UserModules::Shell : public sc_core::sc_module, private transport::ModulePlace {
 public:
  /// @param addresses  of memories, by name
  Shell(sc_core::sc_module_name name, const ModuleSpec& spec, const std::map<std::string, std::uint64_t>& addresses,
        Window first_window, transport::Assembly& fabric, platforms::Machine& machine,
        const platforms::LinkDatasheet& link)
      : sc_module(name), spec_(spec), library_(load(spec)), values_(values_of(spec, library_)), addresses_(addresses) {
    const Branch branch = branch_named(spec, machine);
    try {
      device_.reset(library_.make("device", *this));
      if (device_ == nullptr) throw std::runtime_error("the library has made no module");
      connect_sockets(fabric, first_window);
    } catch (const InputError&) {
      throw;
    } catch (const std::exception& refused) {  // also reports of SystemC
      throw InputError(spec.origin, fmt::format("{}: {}", spec.key, refused.what()));
    }
    for (transport::Endpoint* const adapter : adapters()) machine.attach(*adapter, branch.server, branch.branch, link);
    if (const sc_core::sc_object* const socket = unbound_in(*device_))
      throw InputError(spec.origin, fmt::format("{}: the module leaves {} unbound", spec.key, socket->name()));
  }

  std::vector<transport::Endpoint*> adapters() const {
    std::vector<transport::Endpoint*> all;
    if (initiator_) all.push_back(initiator_.get());
    if (target_) all.push_back(target_.get());
    return all;
  }

  void add_parameters(std::vector<Parameter>& all) const {
    for (std::uint32_t p = 0; p < library_.parameter_count; ++p) {
      const std::string parameter = library_.parameters[p].name;
      const auto set = std::find_if(spec_.parameters.begin(), spec_.parameters.end(),
                                    [&](const ModuleSpec::Value& v) { return v.parameter == parameter; });
      all.push_back({fmt::format("{}.{}", name(), parameter), values_[p], scenario::unit_of_key(parameter),
                     set == spec_.parameters.end() ? "default" : "scenario " + set->origin.str()});
    }
  }

 private:
  void connect_sockets(transport::Assembly& fabric, Window first_window) {
    if (initiator_socket_ != nullptr) {
      initiator_ = std::make_unique<transport::InitiatorAdapter>("initiator", fabric, first_window + 1,
                                                                 railyard::number(TrafficClass::other));
      initiator_socket_->bind(initiator_->socket);
    }
    if (target_socket_ != nullptr) {
      target_ = std::make_unique<transport::TargetAdapter>("target", fabric, first_window);
      target_->socket.bind(*target_socket_);
    }
    if (adapters().empty()) throw std::runtime_error("the module hands over no socket");
  }

  const std::string& value(const char* parameter, ModuleParameter::Kind kind) const {
    for (std::uint32_t p = 0; p < library_.parameter_count; ++p)
      if (library_.parameters[p].kind == kind && std::string(library_.parameters[p].name) == parameter)
        return values_[p];
    throw std::logic_error(
        fmt::format("the module asks for parameter {}, which it does not state", in_quotes(parameter)));
  }
  double number(const char* parameter) const override {
    return std::strtod(value(parameter, ModuleParameter::Kind::number).c_str(), nullptr);
  }
  const char* text(const char* parameter) const override {
    return value(parameter, ModuleParameter::Kind::text).c_str();
  }
  std::uint64_t address_of(const char* memory) const override {
    const auto found = addresses_.find(memory);
    if (found != addresses_.end()) return found->second;
    std::vector<std::string> names;
    for (const auto& [name, address] : addresses_) names.push_back(name);
    const std::string near = scenario::nearest(memory, names);
    throw InputError(spec_.origin,
                     fmt::format("{}: there is no memory {}; accepted: names of GPUs, sockets and modules, as {}",
                                 spec_.key, in_quotes(memory), near.empty() ? names.front() : near));
  }
  void connect(tlm::tlm_base_initiator_socket<>& socket) override {
    if (initiator_socket_ != nullptr)
      throw std::logic_error("the module hands over two initiator sockets; accepted: one");
    initiator_socket_ = &socket;
  }
  void connect(tlm::tlm_base_target_socket<>& socket) override {
    if (target_socket_ != nullptr) throw std::logic_error("the module hands over two target sockets; accepted: one");
    target_socket_ = &socket;
  }

  const ModuleSpec& spec_;
  const ModuleLibrary& library_;
  const std::vector<std::string> values_;  ///< of the parameters of the library
  const std::map<std::string, std::uint64_t>& addresses_;
  tlm::tlm_base_initiator_socket<>* initiator_socket_ = nullptr;
  tlm::tlm_base_target_socket<>* target_socket_ = nullptr;
  std::unique_ptr<sc_core::sc_module> device_;
  std::unique_ptr<transport::InitiatorAdapter> initiator_;
  std::unique_ptr<transport::TargetAdapter> target_;
};

UserModules::UserModules(const Scenario& scenario, transport::Assembly& fabric, platforms::Machine& machine) {
  if (scenario.modules.empty()) return;
  if (scenario.fabric.fidelity == transport::Fidelity::fluid)
    throw InputError(scenario.modules.front().origin,
                     scenario.modules.front().key +
                         ": links of modules are trains; fabric.fidelity is fluid; accepted: train, auto");
  std::map<std::string, std::uint64_t> addresses;
  for (const transport::Device* device : fabric.devices())
    if (const auto* endpoint = dynamic_cast<const transport::Endpoint*>(device);
        endpoint != nullptr && endpoint->is_memory())
      addresses.emplace(endpoint->name(), transport::window_base(endpoint->window()));
  Window window = machine.first_free_window();
  for (const ModuleSpec& spec : scenario.modules) {
    if (sc_core::sc_find_object(spec.name.c_str()) != nullptr ||
        !addresses.emplace(spec.name, transport::window_base(window)).second)
      throw InputError(spec.name_origin, fmt::format("{}.name: {} is taken; accepted: a name of its own", spec.key,
                                                     in_quotes(spec.name)));
    window += kWindowsOfModule;
  }
  window = machine.first_free_window();
  for (const ModuleSpec& spec : scenario.modules) {
    shells_.push_back(std::make_unique<Shell>(spec.name.c_str(), spec, addresses, window, fabric, machine,
                                              scenario.machine.nic_pcie));
    window += kWindowsOfModule;
  }
}

UserModules::~UserModules() = default;

std::vector<const transport::Endpoint*> UserModules::adapters() const {
  std::vector<const transport::Endpoint*> all;
  for (const auto& shell : shells_)
    for (const transport::Endpoint* adapter : shell->adapters()) all.push_back(adapter);
  return all;
}

std::vector<UserModules::Parameter> UserModules::parameters() const {
  std::vector<Parameter> all;
  for (const auto& shell : shells_) shell->add_parameters(all);
  return all;
}

}  // namespace railyard
