#include "sc_main/user_modules.h"

#include <fmt/format.h>
#include <algorithm>
#include <cstdlib>
#include <map>
#include <set>

#include "sc_main/scenario/table/words.h"
#include "sc_main/user_library.h"
#include "transport/edge/generic_payload_adapter.h"
#include "workload/traffic.h"

namespace railyard {

namespace {

using scenario::in_quotes;
using transport::ModuleParameter;
using transport::ModuleSocket;
using transport::Window;

struct Branch {
  std::uint32_t server = 0, branch = 0;
};

Branch branch_named(const UserLibrary::Socket& socket, const platforms::Machine& machine) {
  std::vector<std::string> names;
  for (std::uint32_t s = 0; s < machine.servers().size(); ++s)
    for (std::uint32_t b = 0; b < platforms::branches_of(machine.spec().board); ++b) {
      names.emplace_back(machine.servers()[s]->switch_at(b).name());
      if (names.back() == socket.at.connected) return {s, b};
    }
  const std::string near = scenario::nearest(socket.at.connected, names);
  throw InputError(socket.at.origin,
                   fmt::format("{}: {} has no place for devices {}; accepted: {} to {}{}", socket.key,
                               machine.spec().board.name, in_quotes(socket.at.connected), names.front(), names.back(),
                               near.empty() ? "" : " (did you mean '" + near + "'?)"));
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
  /// @param addresses  of memories, by name  @param first_window  of as many as the library has sockets
  Shell(sc_core::sc_module_name name, const ModuleSpec& spec, const UserLibrary& library,
        const std::map<std::string, std::uint64_t>& addresses, Window first_window, transport::Assembly& fabric,
        platforms::Machine& machine, const platforms::LinkDatasheet& link)
      : sc_module(name), spec_(spec), library_(library), addresses_(addresses), given_(library.sockets().size()) {
    std::vector<Branch> branches;
    for (const UserLibrary::Socket& socket : library.sockets()) branches.push_back(branch_named(socket, machine));
    try {
      device_.reset(library.entry().make("device", *this));
      if (device_ == nullptr) throw std::runtime_error("the library has made no module");
      for (std::size_t s = 0; s < given_.size(); ++s) connect_socket(s, fabric, first_window + static_cast<Window>(s));
    } catch (const InputError&) {
      throw;
    } catch (const std::exception& refused) {  // also reports of SystemC
      throw InputError(spec.origin, fmt::format("{}: {}", spec.key, refused.what()));
    }
    for (std::size_t s = 0; s < adapters_.size(); ++s)
      machine.attach(*adapters_[s], branches[s].server, branches[s].branch, link);
    if (const sc_core::sc_object* const socket = unbound_in(*device_))
      throw InputError(spec.origin, fmt::format("{}: the module leaves {} unbound", spec.key, socket->name()));
  }

  /// In the order of the library's sockets.
  const std::vector<std::unique_ptr<transport::Endpoint>>& adapters() const { return adapters_; }

  void add_parameters(std::vector<Parameter>& all) const {
    for (std::uint32_t p = 0; p < library_.entry().parameter_count; ++p) {
      const std::string parameter = library_.entry().parameters[p].name;
      const auto set = std::find_if(spec_.parameters.begin(), spec_.parameters.end(),
                                    [&](const ModuleSpec::Value& v) { return v.parameter == parameter; });
      all.push_back({fmt::format("{}.{}", name(), parameter), library_.values()[p], scenario::unit_of_key(parameter),
                     set == spec_.parameters.end() ? "default" : "scenario " + set->origin.str()});
    }
  }

 private:
  /// What the module has handed over as one of its sockets.
  struct Given {
    tlm::tlm_base_initiator_socket<>* initiator = nullptr;
    tlm::tlm_base_target_socket<>* target = nullptr;
  };

  void connect_socket(std::size_t s, transport::Assembly& fabric, Window window) {
    const std::string& name = library_.sockets()[s].name;
    if (given_[s].initiator != nullptr) {
      auto adapter = std::make_unique<transport::InitiatorAdapter>(name.c_str(), fabric, window,
                                                                   railyard::number(TrafficClass::other));
      given_[s].initiator->bind(adapter->socket);
      adapters_.push_back(std::move(adapter));
    } else if (given_[s].target != nullptr) {
      auto adapter = std::make_unique<transport::TargetAdapter>(name.c_str(), fabric, window);
      adapter->socket.bind(*given_[s].target);
      adapters_.push_back(std::move(adapter));
    } else {
      throw std::runtime_error(fmt::format("the module does not hand over its socket {}", in_quotes(name)));
    }
  }

  /// @throws std::logic_error: the library does not state this socket, or has handed it over
  Given& given(const sc_core::sc_object& socket, ModuleSocket::Kind kind) {
    std::vector<std::string> names;
    for (const UserLibrary::Socket& stated : library_.sockets())
      if (stated.kind == kind) names.push_back(stated.name);
    const std::string name = socket.basename();
    for (std::size_t s = 0; s < given_.size(); ++s)
      if (library_.sockets()[s].name == name && library_.sockets()[s].kind == kind) {
        if (given_[s].initiator != nullptr || given_[s].target != nullptr)
          throw std::logic_error(fmt::format("the module hands over its socket {} twice", in_quotes(name)));
        return given_[s];
      }
    throw std::logic_error(fmt::format("the module hands over {} socket {}, which its library does not state{}",
                                       kind == ModuleSocket::Kind::initiator ? "an initiator" : "a target",
                                       in_quotes(name), names.empty() ? "" : scenario::suggestion(name, names)));
  }

  const std::string& value(const char* parameter, ModuleParameter::Kind kind) const {
    const transport::ModuleLibrary& library = library_.entry();
    for (std::uint32_t p = 0; p < library.parameter_count; ++p)
      if (library.parameters[p].kind == kind && std::string(library.parameters[p].name) == parameter)
        return library_.values()[p];
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
    throw InputError(
        spec_.origin,
        fmt::format(
            "{}: there is no memory {}; accepted: names of GPUs, CPU sockets and target sockets of modules, as {}",
            spec_.key, in_quotes(memory), near.empty() ? names.front() : near));
  }
  void connect(tlm::tlm_base_initiator_socket<>& socket) override {
    given(socket, ModuleSocket::Kind::initiator).initiator = &socket;
  }
  void connect(tlm::tlm_base_target_socket<>& socket) override {
    given(socket, ModuleSocket::Kind::target).target = &socket;
  }

  const ModuleSpec& spec_;
  const UserLibrary& library_;
  const std::map<std::string, std::uint64_t>& addresses_;
  std::vector<Given> given_;  ///< in the order of the library's sockets
  std::unique_ptr<sc_core::sc_module> device_;
  std::vector<std::unique_ptr<transport::Endpoint>> adapters_;
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
  std::set<std::string> names;
  Window window = machine.first_free_window();
  for (const ModuleSpec& spec : scenario.modules) {
    if (sc_core::sc_find_object(spec.name.c_str()) != nullptr || !names.insert(spec.name).second)
      throw InputError(spec.name_origin, fmt::format("{}.name: {} is taken; accepted: a name of its own", spec.key,
                                                     in_quotes(spec.name)));
    const UserLibrary& library = *libraries_.emplace_back(std::make_unique<UserLibrary>(spec));
    std::vector<std::uint64_t> targets;
    for (const UserLibrary::Socket& socket : library.sockets()) {
      if (socket.kind == ModuleSocket::Kind::target) {
        targets.push_back(transport::window_base(window));
        addresses.emplace(spec.name + "." + socket.name, targets.back());
      }
      ++window;
    }
    if (targets.size() == 1) addresses.emplace(spec.name, targets.front());
  }
  window = machine.first_free_window();
  for (std::size_t m = 0; m < scenario.modules.size(); ++m) {
    const ModuleSpec& spec = scenario.modules[m];
    shells_.push_back(std::make_unique<Shell>(spec.name.c_str(), spec, *libraries_[m], addresses, window, fabric,
                                              machine, scenario.machine.nic_pcie));
    window += static_cast<Window>(libraries_[m]->sockets().size());
  }
}

UserModules::~UserModules() = default;

std::vector<const transport::Endpoint*> UserModules::adapters() const {
  std::vector<const transport::Endpoint*> all;
  for (const auto& shell : shells_)
    for (const auto& adapter : shell->adapters()) all.push_back(adapter.get());
  return all;
}

std::vector<UserModules::Parameter> UserModules::parameters() const {
  std::vector<Parameter> all;
  for (const auto& shell : shells_) shell->add_parameters(all);
  return all;
}

}  // namespace railyard
