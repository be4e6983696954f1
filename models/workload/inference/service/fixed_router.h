// Each request says where it goes (Request::instance, Request::answer_instance).
#pragma once

#include <vector>

#include "workload/inference/engine/instance_spec.h"
#include "workload/inference/service/router.h"

namespace railyard::workload::inference {

class FixedRouter : public Router {
 public:
  /// @param instances  by id
  explicit FixedRouter(const std::vector<InstanceSpec>& instances) {
    for (std::uint32_t id = 0; id < instances.size(); ++id)
      (instances[id].part == RequestPart::answer ? answers_ : prompts_).push_back(id);
  }

  /// @pre the request's instances are among those that the constructor has got
  Route route(const Request& request) override {
    Route route;
    route.prompt = prompts_.at(request.instance);
    if (!answers_.empty()) route.answer = answers_.at(request.answer_instance);
    return route;
  }

 private:
  std::vector<std::uint32_t> prompts_, answers_;
};

}  // namespace railyard::workload::inference
