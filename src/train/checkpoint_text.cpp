#include "train/checkpoint_text.h"

#include <fmt/format.h>

#include <bit>
#include <stdexcept>

#include "archive/json_text.h"
#include "archive/log_lines.h"
#include "archive/user_error.h"

namespace isobit::train {
namespace {

using Json = nlohmann::ordered_json;

std::string bits(double x) { return fmt::format("{:016x}", std::bit_cast<std::uint64_t>(x)); }

double binary64(const Json& json, const char* key) {
  const auto digits = json.at(key).get<std::string>();
  if (!archive::is_hex(digits, 16)) throw std::invalid_argument(std::string(key) + " is not 16 hexadecimal digits");
  return std::bit_cast<double>(static_cast<std::uint64_t>(std::stoull(digits, nullptr, 16)));
}

std::int64_t count(const Json& json, const char* key, std::int64_t least = 0) {
  const auto number = archive::integer<std::int64_t>(json.at(key));
  if (number < least) throw std::invalid_argument(fmt::format("{} is {}", key, number));
  return number;
}

CheckpointText parse(std::string_view text) {
  const Json json = archive::parse_json(text);
  CheckpointText read;
  read.steps_done = count(json, "steps_done", 1);
  read.epoch = count(json, "epoch", 1);
  read.position = count(json, "position");
  read.sums.loss = binary64(json, "epoch_loss_bits");
  read.sums.counts.correct = count(json, "epoch_correct");
  read.sums.samples = count(json, "epoch_samples");
  read.sums.derivable = !json.contains("epoch_targets");
  if (!read.sums.derivable) {
    read.sums.weight = binary64(json, "epoch_weight_bits");
    read.sums.counts.targets = count(json, "epoch_targets");
    read.sums.counts.error = binary64(json, "epoch_error_bits");
  }
  if (format_checkpoint_text(read) != text) throw std::invalid_argument("it is not as isobit writes it");
  return read;
}

}  // namespace

std::string format_checkpoint_text(const CheckpointText& text) {
  const EpochSums& sums = text.sums;
  Json json;
  json["steps_done"] = text.steps_done;
  json["epoch"] = text.epoch;
  json["position"] = text.position;
  json["epoch_loss_bits"] = bits(sums.loss);
  json["epoch_correct"] = sums.counts.correct;
  json["epoch_samples"] = sums.samples;
  if (!sums.derivable) {
    json["epoch_weight_bits"] = bits(sums.weight);
    json["epoch_targets"] = sums.counts.targets;
    json["epoch_error_bits"] = bits(sums.counts.error);
  }
  return json.dump();
}

CheckpointText parse_checkpoint_text(std::string_view text) {
  try {
    return parse(text);
  } catch (const std::exception& error) {
    throw archive::UserError("checkpoint", fmt::format("its state cannot be read: {}", error.what()),
                             "resume from another checkpoint");
  }
}

}  // namespace isobit::train
