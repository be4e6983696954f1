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

// Shapes that training runs name: parameters as their sources print them, to the last digit if they print all.
BOOST_AUTO_TEST_CASE(shipped_models_have_the_published_parameters) {
  struct Published {
    const char* name;
    double parameters;
    double tolerance;
  };
  for (const Published& model :
       {// mosaicml/llm-foundry 8c8dd48 scripts/train/benchmarking/README.md, at 2048 tokens
        Published{"mpt-125m", 125311488, 0}, Published{"mpt-350m", 355985408, 0}, Published{"mpt-760m", 760470528, 0},
        Published{"mpt-1b", 1315950592, 0}, Published{"mpt-3b", 2651837440, 0}, Published{"mpt-7b", 6658859008, 0},
        Published{"mpt-13b", 12853954560, 0}, Published{"mpt-30b", 29975214080, 0},
        Published{"mpt-70b", 64862437376, 0},
        // Model cards
        Published{"llama-2-13b", 13015864320, 0}, Published{"qwen3-30b-a3b", 30532122624, 0},
        Published{"qwen3-235b-a22b", 235093634560, 0}, Published{"gpt-oss-20b", 20.91e9, 1e-3},
        Published{"gpt-oss-120b", 116.83e9, 1e-4}, Published{"grok-1", 314e9, 0.01},
        Published{"nemotron-4-15b", 15.6e9, 0.01}, Published{"nemotron-4-340b", 341e9, 0.01},
        // arXiv 2104.04473, 2205.05198
        Published{"gpt-22b", 22e9, 0.01}, Published{"gpt3-175b", 174.6e9, 0.001}, Published{"gpt-530b", 529.6e9, 0.001},
        Published{"gpt-1t", 1008e9, 0.001}}) {
    const ModelShape shape =
        scenario::load_model(kSource + "/scenarios/models/" + model.name + ".json", {}, "", "").shape;
    const auto ours = static_cast<double>(total_parameters(shape));
    BOOST_TEST(std::abs(ours - model.parameters) <= model.tolerance * model.parameters,
               model.name << ": " << grouped(static_cast<std::uint64_t>(ours)));
  }
}

BOOST_AUTO_TEST_CASE(page_has_every_model) {
  const std::string page = text_of(kSource + "/docs/models.md");
  for (const Json& model : published())
    BOOST_TEST(page.find(row(model)) != std::string::npos, "docs/models.md lacks: " << row(model));
}
