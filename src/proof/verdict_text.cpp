#include "proof/verdict_text.h"

#include <fmt/format.h>

#include "archive/json_text.h"
#include "archive/printable.h"

namespace isobit::proof {

namespace {

std::string start_of(const train::Verdict& verdict) {
  return verdict.start == 0 ? "" : fmt::format(", from the recorded checkpoint of step {}", verdict.start);
}

// Of each set that both measured: "; test recorded accuracy 0.8312  loss 0.4711, repeated accuracy 0.8309  loss
// 0.4713".
std::string metrics_of_both(const train::Verdict& verdict) {
  std::string text;
  for (const archive::MetricsLine& recorded : verdict.recorded_metrics) {
    for (const archive::MetricsLine& repeated : verdict.repeated_metrics) {
      if (repeated.set != recorded.set) continue;
      text += fmt::format("; {} recorded {}, repeated {}", recorded.set, archive::metrics_text(recorded),
                          archive::metrics_text(repeated));
    }
  }
  return text;
}

// Other words than those of a verdict, so that nobody takes one for the other.
std::string stock_sentence(const Judgement& judgement) {
  const train::Verdict& verdict = *judgement.verdict;
  std::string settings = judgement.settings.empty() ? "" : fmt::format(" ({})", judgement.settings);
  if (!judgement.signer.empty()) settings += archive::printable("; signed by " + judgement.signer);
  if (verdict.difference) {
    const train::Difference& d = *verdict.difference;
    return archive::printable(fmt::format(
        "stock PyTorch, nothing promised: the repeat differs from step {} on: {} recorded {}, repeated {}{}{}{}{}",
        d.step, d.what, d.recorded, d.recomputed, metrics_of_both(verdict), judgement.hint.empty() ? "" : "; ",
        judgement.hint, settings));
  }
  const std::string where = verdict.whole ? fmt::format("in all {} steps", verdict.last)
                                          : fmt::format("in steps {}..{}", verdict.first, verdict.last);
  const std::string weights =
      verdict.weights.empty() ? "" : fmt::format(", weights {}, sha256 {}", verdict.weights, verdict.weights_sha256);
  return fmt::format("stock PyTorch, nothing promised: the repeat has equal bits here {}{}{}{}", where,
                     start_of(verdict), weights, settings);
}

}  // namespace

std::string sentence(const Judgement& judgement) {
  const train::Verdict& verdict = *judgement.verdict;
  if (verdict.interrupted) return fmt::format("interrupted; no verdict on {}", judgement.folder);
  if (verdict.stock) return stock_sentence(judgement);
  if (verdict.difference) {
    const train::Difference& d = *verdict.difference;
    return archive::printable(fmt::format("different at step {}: {} recorded {}, recomputed {}{}{}", d.step, d.what,
                                          d.recorded, d.recomputed, judgement.hint.empty() ? "" : "; ",
                                          judgement.hint));
  }
  std::string settings = judgement.settings.empty() ? "" : fmt::format(" ({})", judgement.settings);
  if (!judgement.signer.empty()) settings += archive::printable("; signed by " + judgement.signer);
  std::string but;
  for (const archive::OutsideLine& stretch : verdict.outside) but += ", but " + archive::describe(stretch);
  but = archive::printable(but);
  if (verdict.whole) {
    return fmt::format("identical{}: {} steps, weights {}, sha256 {}{}", but, verdict.last, verdict.weights,
                       verdict.weights_sha256, settings);
  }
  return fmt::format("identical in steps {}..{}{}{}{}", verdict.first, verdict.last, start_of(verdict), but, settings);
}

std::vector<std::string> not_recomputed(const train::Verdict& verdict) {
  std::vector<std::string> parts = {"id and date of the run", "times", "machine"};
  if (!verdict.whole) parts.push_back(fmt::format("all other steps than {}..{}", verdict.first, verdict.last));
  if (verdict.start != 0) parts.push_back(fmt::format("the checkpoint of step {}", verdict.start));
  parts.insert(parts.end(), verdict.not_recomputed.begin(), verdict.not_recomputed.end());
  return parts;
}

archive::Json verdict_json(const Judgement& judgement, const std::string& message) {
  const auto text = [](const std::string& value) {
    return value.empty() ? archive::Json(nullptr) : archive::Json(value);
  };
  archive::Json object{{"verdict", "cannot-judge"},
                       {"path", text(judgement.folder)},
                       {"from", nullptr},
                       {"to", nullptr},
                       {"whole", nullptr},
                       {"weights", nullptr},
                       {"recorded_weights", text(judgement.recorded_weights)},
                       {"signer", text(judgement.signer)},
                       {"weights_sha256", nullptr},
                       {"start", nullptr},
                       {"segments", nullptr},
                       {"checkpoints", nullptr},
                       {"outside", nullptr},
                       {"not_recomputed", nullptr},
                       {"difference", nullptr},
                       {"recorded_metrics", nullptr},
                       {"repeated_metrics", nullptr},
                       {"message", message},
                       {"script_output", text(judgement.script_output)}};
  if (judgement.judged()) {
    const train::Verdict& verdict = *judgement.verdict;
    object["verdict"] = verdict.stock        ? verdict.difference ? "stock-different" : "stock-equal"
                        : verdict.difference ? "different"
                                             : "identical";
    if (verdict.stock) {
      object["recorded_metrics"] = archive::metrics_json(verdict.recorded_metrics);
      object["repeated_metrics"] = archive::metrics_json(verdict.repeated_metrics);
    }
    object["from"] = verdict.first;
    object["to"] = verdict.last;
    object["whole"] = verdict.whole;
    object["weights"] = text(verdict.weights);
    object["weights_sha256"] = text(verdict.weights_sha256);
    object["start"] = verdict.start;
    object["segments"] = verdict.segments;
    object["checkpoints"] = verdict.checkpoints;
    object["outside"] = archive::Json::array();
    for (const archive::OutsideLine& line : verdict.outside) {
      object["outside"].push_back(
          {{"after", line.after}, {"until", line.until}, {"place", line.place}, {"call", line.call}});
    }
    object["not_recomputed"] = not_recomputed(verdict);
    if (const auto& d = verdict.difference) {
      object["difference"] = {
          {"step", d->step}, {"what", d->what}, {"recorded", d->recorded}, {"recomputed", d->recomputed}};
    }
  }
  return object;
}

std::optional<train::Verdict> verdict_of_json(const archive::Json& object) {
  const std::string said = object.at("verdict");
  if (said != "identical" && said != "different") return {};
  const auto number = [&](const char* key) { return archive::integer<std::int64_t>(object.at(key)); };
  const auto text = [&](const char* key) {
    return object.at(key).is_null() ? std::string() : object.at(key).get<std::string>();
  };
  train::Verdict verdict;
  verdict.first = number("from");
  verdict.last = number("to");
  verdict.start = number("start");
  verdict.checkpoints = number("checkpoints");
  verdict.weights = text("weights");
  verdict.weights_sha256 = text("weights_sha256");
  if (said == "different") {
    const archive::Json& d = object.at("difference");
    verdict.difference = train::Difference{archive::integer<std::int64_t>(d.at("step")), d.at("what"), d.at("recorded"),
                                           d.at("recomputed")};
  }
  return verdict;
}

}  // namespace isobit::proof
