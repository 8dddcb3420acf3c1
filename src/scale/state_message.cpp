#include "scale/state_message.h"

#include <bit>
#include <nlohmann/json.hpp>

namespace isobit::scale {
namespace {

using Json = nlohmann::json;

std::int64_t bits(double x) { return std::bit_cast<std::int64_t>(x); }
double binary64(const Json& json) { return std::bit_cast<double>(json.get<std::int64_t>()); }

Json to_json(const train::StepResult& result) {
  return Json::array({result.place.step, result.place.epoch, result.place.first, result.place.count,
                      result.place.last_of_epoch, bits(result.lr), std::bit_cast<std::int32_t>(result.loss),
                      result.correct, result.batch_digest.high, result.batch_digest.low});
}

train::StepResult step_result(const Json& json) {
  train::StepResult result;
  result.place = {json.at(0), json.at(1), json.at(2), json.at(3), json.at(4)};
  result.lr = binary64(json.at(5));
  result.loss = std::bit_cast<float>(json.at(6).get<std::int32_t>());
  result.correct = json.at(7);
  result.batch_digest = {json.at(8).get<std::uint64_t>(), json.at(9).get<std::uint64_t>()};
  return result;
}

}  // namespace

Bytes encode_state(const train::TrainingState& state, const train::StepResult* result, const std::string& notes) {
  const train::EpochSums& sums = state.sums;
  const bool known = result != nullptr && result->place.step == state.steps_done;
  return Json::to_cbor(Json::array({state.steps_done, bits(sums.loss), bits(sums.weight), sums.samples,
                                    sums.counts.correct, sums.counts.targets, bits(sums.counts.error), sums.derivable,
                                    known ? to_json(*result) : Json(), notes}));
}

DecodedState decode_state(const Bytes& bytes) {
  try {
    const Json json = Json::from_cbor(bytes);
    DecodedState state;
    state.steps_done = json.at(0);
    state.sums.loss = binary64(json.at(1));
    state.sums.weight = binary64(json.at(2));
    state.sums.samples = json.at(3);
    state.sums.counts = {json.at(4), json.at(5), binary64(json.at(6))};
    state.sums.derivable = json.at(7);
    if (!json.at(8).is_null()) state.result = std::make_shared<train::StepResult>(step_result(json.at(8)));
    state.notes = json.at(9);
    return state;
  } catch (const Json::exception&) {
    throw WireError("a state that isobit does not send");
  }
}

}  // namespace isobit::scale
