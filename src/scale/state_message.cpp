#include "scale/state_message.h"

#include <bit>
#include <stdexcept>

#include "archive/json_text.h"
#include "scale/strict_cbor.h"

namespace isobit::scale {
namespace {

using Json = nlohmann::json;

std::int64_t bits(double x) { return std::bit_cast<std::int64_t>(x); }

// The library's own get takes true for a number.
template <class T>
T number(const Json& json) {
  if (!json.is_number_integer()) throw std::invalid_argument("no whole number");
  if (json.is_number_unsigned() ? !std::in_range<T>(json.get<std::uint64_t>())
                                : !std::in_range<T>(json.get<std::int64_t>()))
    throw std::invalid_argument("number out of range");
  return json.get<T>();
}

double binary64(const Json& json) { return std::bit_cast<double>(number<std::int64_t>(json)); }

// A step, a position, a number of samples or targets.
std::int64_t count(const Json& json) {
  const auto value = archive::integer<std::int64_t>(json);
  if (value < 0) throw std::invalid_argument("number out of range");
  return value;
}

Json to_json(const train::StepResult& result) {
  const auto& gradients = result.gradients;
  return Json::array({result.place.step, result.place.epoch, result.place.first, result.place.count,
                      result.place.last_of_epoch, bits(result.lr), std::bit_cast<std::int32_t>(result.loss),
                      result.correct, result.batch_digest.high, result.batch_digest.low,
                      gradients ? Json::array({gradients->high, gradients->low}) : Json()});
}

train::StepResult step_result(const Json& json) {
  train::StepResult result;
  result.place = {count(json.at(0)), count(json.at(1)), count(json.at(2)), count(json.at(3)), json.at(4).get<bool>()};
  result.lr = binary64(json.at(5));
  result.loss = std::bit_cast<float>(number<std::int32_t>(json.at(6)));
  result.correct = count(json.at(7));
  result.batch_digest = {number<std::uint64_t>(json.at(8)), number<std::uint64_t>(json.at(9))};
  if (const Json& gradients = json.at(10); !gradients.is_null())
    result.gradients = {number<std::uint64_t>(gradients.at(0)), number<std::uint64_t>(gradients.at(1))};
  return result;
}

DecodedState decode(const Json& json) {
  DecodedState state;
  state.steps_done = count(json.at(0));
  state.sums.loss = binary64(json.at(1));
  state.sums.weight = binary64(json.at(2));
  state.sums.samples = count(json.at(3));
  state.sums.counts = {count(json.at(4)), count(json.at(5)), binary64(json.at(6))};
  state.sums.derivable = json.at(7).get<bool>();
  if (!json.at(8).is_null()) state.result = std::make_shared<train::StepResult>(step_result(json.at(8)));
  state.notes = json.at(9).get<std::string>();
  return state;
}

}  // namespace

Bytes encode_state(std::int64_t steps_done, const train::EpochSums& sums, const train::StepResult* result,
                   const std::string& notes) {
  const bool known = result != nullptr && result->place.step == steps_done;
  return Json::to_cbor(Json::array({steps_done, bits(sums.loss), bits(sums.weight), sums.samples, sums.counts.correct,
                                    sums.counts.targets, bits(sums.counts.error), sums.derivable,
                                    known ? to_json(*result) : Json(), notes}));
}

DecodedState decode_state(const Bytes& bytes) {
  const auto json = parse_cbor(bytes, /*nulls=*/true);
  if (!json || !json->is_array()) throw WireError("a state that isobit does not send");
  try {
    DecodedState state = decode(*json);
    if (encode_state(state.steps_done, state.sums, state.result.get(), state.notes) == bytes) return state;
  } catch (const Json::exception&) {
  } catch (const std::invalid_argument&) {
  }
  throw WireError("a state that isobit does not send");
}

}  // namespace isobit::scale
