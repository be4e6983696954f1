// Published models, as their config.json files describe them: our count of parameters against the published one, and the page
// that shows both.
#define BOOST_TEST_MODULE scenario_models
#include <boost/test/unit_test.hpp>

#include <cmath>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <set>

#include "sc_main/scenario/model/config.h"
#include "tests/scenario/scenario_support.h"
#include "transformer/parameters.h"

using namespace railyard;
using namespace railyard::test;
using transformer::ModelShape;
using Json = nlohmann::json;

namespace {

Json published() { return Json::parse(text_of(kSource + "/tests/models/published.json")); }

ModelShape shape_of(const Json& config) {
  const Scratch scratch;
  scratch.write("m.json", config.dump());
  return scenario::load_model(scratch.path("m.json"), {}, "", "").shape;
}

std::string grouped(std::uint64_t number) {
  std::string text = std::to_string(number);
  for (std::size_t i = text.size(); i > 3; i -= 3) text.insert(i - 3, " ");
  return text;
}

std::string row(const Json& model) {
  const std::uint64_t ours = total_parameters(shape_of(model["config"]));
  const auto theirs = model["published"].get<std::uint64_t>();
  char difference[16] = "0";
  if (ours != theirs)
    std::snprintf(difference, sizeof difference, "%+.3f %%",
                  100 * (static_cast<double>(ours) / static_cast<double>(theirs) - 1));
  const std::string repo = model["repo"];
  return "| [" + model["name"].get<std::string>() + "](https://huggingface.co/" + repo + ") | `" +
         model["config"]["model_type"].get<std::string>() + "` | " + grouped(ours) + " | " + grouped(theirs) + " | " +
         difference + " | " + model.value("source", "weights") + " |\n";
}

}  // namespace

BOOST_AUTO_TEST_CASE(parameters_are_as_published) {
  std::set<std::string> families;
  for (const Json& model : published()) {
    const auto ours = static_cast<double>(total_parameters(shape_of(model["config"])));
    BOOST_TEST(std::abs(ours / model["published"].get<double>() - 1) < 0.005,
               model["name"] << ": " << grouped(static_cast<std::uint64_t>(ours)));
    families.insert(model["config"]["model_type"].get<std::string>());
  }
  BOOST_TEST(families.size() >= 25u);
}

BOOST_AUTO_TEST_CASE(page_has_every_model) {
  const std::string page = text_of(kSource + "/docs/models.md");
  for (const Json& model : published())
    BOOST_TEST(page.find(row(model)) != std::string::npos, "docs/models.md lacks: " << row(model));
}
