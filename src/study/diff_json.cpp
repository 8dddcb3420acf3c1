#include <nlohmann/json.hpp>

#include "study/diff.h"

namespace isobit::study {
namespace {

using Json = nlohmann::ordered_json;

Json to_json(const DiffSide& side) {
  return {{"id", side.id}, {"name", side.name}, {"path", side.path}, {"contract", side.contract}};
}

// Row-major index as one per dimension.
Json position(std::int64_t index, const std::vector<std::int64_t>& shape) {
  std::vector<std::int64_t> at(shape.size());
  for (std::size_t d = shape.size(); d-- > 0;) {
    if (shape[d] <= 0) return Json::array();
    at[d] = index % shape[d];
    index /= shape[d];
  }
  return at;
}

Json to_json(const OperatorDifference& found) {
  Json object{{"step", found.key.step},
              {"phase", to_string(found.key.phase)},
              {"module", found.key.module},
              {"name", found.key.name},
              {"occurrence", found.key.occurrence},
              {"output", found.output},
              {"shape", found.shape},
              {"dtype", found.dtype},
              {"max_ulp", nullptr},
              {"at", nullptr},
              {"differing", nullptr},
              {"elements", nullptr}};
  if (!found.values) return object;
  std::vector<std::int64_t> shape = found.shape;
  if (found.dtype.starts_with("complex")) shape.push_back(2);
  if (found.values->max_ulp != kUnordered) object["max_ulp"] = found.values->max_ulp;
  object["at"] = position(found.values->at, shape);
  object["differing"] = found.values->differing;
  object["elements"] = found.values->elements;
  return object;
}

}  // namespace

std::string to_json(const Diff& diff) {
  Json differences = Json::array();
  for (const InputDifferenceOfRuns& one : diff.differences) {
    differences.push_back({{"part", one.part}, {"key", one.key}, {"a", one.a}, {"b", one.b}, {"counts", one.counts}});
  }
  Json object{{"format", "isobit-diff-1"},
              {"results", to_string(diff.results)},
              {"a", to_json(diff.a)},
              {"b", to_json(diff.b)},
              {"differences", differences},
              {"code_diff", diff.code_diff},
              {"compared",
               {{"steps", diff.compared.steps},
                {"metrics", diff.compared.metrics},
                {"checkpoints", diff.compared.checkpoints},
                {"operators", diff.compared.operators}}},
              {"first_step", nullptr},
              {"operator", nullptr},
              {"not_looked_into", diff.not_looked_into},
              {"notes", diff.notes},
              {"claimed", {"a.id", "b.id", "differences of part environment and hardware"}}};
  if (const auto& step = diff.first_step) {
    object["first_step"] = {
        {"step", step->step}, {"epoch", step->epoch}, {"field", step->field}, {"a", step->a}, {"b", step->b}};
  }
  if (diff.first_operator) object["operator"] = to_json(*diff.first_operator);
  return object.dump(-1, ' ', true, Json::error_handler_t::replace);
}

}  // namespace isobit::study
