#include "study/calibration.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "archive/record_types.h"
#include "study/distributions.h"
#include "study/sample_statistics.h"

namespace isobit::study {
namespace {

using archive::RunRecord;

constexpr double kCoverage = 0.99;

std::vector<Change> changes(const Environment& before, const Environment& now) {
  std::vector<Change> list;
  std::set<std::string> keys;
  for (const auto& [key, value] : before) keys.insert(key);
  for (const auto& [key, value] : now) keys.insert(key);
  const auto value_in = [](const Environment& environment, const std::string& key) {
    const auto found = environment.find(key);
    return found == environment.end() ? std::string() : found->second;
  };
  for (const std::string& key : keys) {
    Change change{key, value_in(before, key), value_in(now, key)};
    if (change.before != change.now) list.push_back(std::move(change));
  }
  return list;
}

// The first step in which anything differs that both recorded.
std::optional<std::int64_t> first_difference(const RunRecord& recorded, const RunRecord& now) {
  const auto &a = recorded.steps(), &b = now.steps();
  for (std::size_t i = 0; i < std::min(a.size(), b.size()); ++i) {
    const bool weights = !a[i].weights.empty() && !b[i].weights.empty() && a[i].weights != b[i].weights;
    if (a[i].loss_bits != b[i].loss_bits || a[i].batch != b[i].batch || weights) return a[i].step;
  }
  if (a.size() != b.size()) return static_cast<std::int64_t>(std::min(a.size(), b.size())) + 1;
  return std::nullopt;
}

std::vector<MetricMove> metric_moves(const std::vector<RunRecord>& recorded, const RunRecord& now) {
  std::vector<MetricMove> moves;
  const auto values = final_metrics(now);
  for (const auto& [name, value] : final_metrics(recorded[0])) {
    const auto found = values.find(name);
    if (found == values.end()) continue;
    MetricMove move{name, value, found->second, {}, {}};
    std::vector<double> known;
    for (const RunRecord& run : recorded) {
      const auto metrics = final_metrics(run);
      if (const auto own = metrics.find(name); own != metrics.end()) known.push_back(own->second);
    }
    if (known.size() >= 2) {
      const auto n = static_cast<double>(known.size());
      const double reach = t_quantile((1 + kCoverage) / 2, n - 1) * standard_deviation(known) * std::sqrt(1 + 1 / n);
      move.low = mean(known) - reach, move.high = mean(known) + reach;
    }
    moves.push_back(std::move(move));
  }
  return moves;
}

bool same_bits(const RunRecord& recorded, const RunRecord& now) {
  const auto same_metrics = [](const archive::MetricsLine& a, const archive::MetricsLine& b) {
    const auto same = [](const auto& x, const auto& y) {
      return x.first == y.first && (x.second == y.second || (std::isnan(x.second) && std::isnan(y.second)));
    };
    return a.step == b.step && a.set == b.set &&
           std::equal(a.values.begin(), a.values.end(), b.values.begin(), b.values.end(), same);
  };
  return archive::same_values_of(recorded.weights(), now.weights()) &&
         (recorded.weights_sha256().empty() || recorded.weights_sha256() == now.weights_sha256()) &&
         !first_difference(recorded, now) &&
         std::equal(recorded.metrics().begin(), recorded.metrics().end(), now.metrics().begin(), now.metrics().end(),
                    same_metrics);
}

void judge_stock(Calibration& result) {
  const auto outside = [](const MetricMove& m) { return m.low && (m.now < *m.low || m.now > *m.high); };
  const auto first = std::find_if(result.metrics.begin(), result.metrics.end(), outside);
  if (first != result.metrics.end()) {
    result.verdict = Verdict::moved;
    result.note = fmt::format("{} is {:.6g}, outside the recorded spread {:.6g} to {:.6g}", first->name, first->now,
                              *first->low, *first->high);
  } else if (result.metrics.empty() || !result.metrics[0].low) {
    result.verdict = Verdict::unknown;
    result.note =
        "other bits than one recorded run, whose spread is unknown: record more runs of the experiment, and "
        "add them with isobit calibrate --add RUN --as NAME";
  } else {
    result.verdict = Verdict::within;
    result.note = "other bits, metrics within the recorded spread";
  }
}

void look_back(Calibration& result, const std::vector<CalibrationLine>& history, const Environment& now) {
  for (const CalibrationLine& line : history) {
    if (line.verdict != Verdict::unchanged && line.verdict != Verdict::within) continue;
    result.last_unchanged = line.time;
    result.changes_since = changes(line.environment, now);
  }
}

}  // namespace

bool is_stock(const std::string& contract) { return contract.starts_with("stock"); }

std::map<std::string, double> final_metrics(const RunRecord& run) {
  std::map<std::string, double> values;
  for (const archive::MetricsLine& line : archive::last_of_each_set(run.metrics())) {
    for (const auto& [name, value] : line.values) {
      if (std::isfinite(value)) values[line.set + "." + name] = value;
    }
  }
  return values;
}

Calibration judge(const std::vector<RunRecord>& recorded, const RunRecord& now,
                  const std::vector<CalibrationLine>& history) {
  Calibration result;
  const RunRecord& baseline = recorded[0];
  result.metrics = metric_moves(recorded, now);
  result.changes = changes(environment_of(baseline.environment()), environment_of(now.environment()));
  look_back(result, history, environment_of(now.environment()));
  const bool stock = is_stock(baseline.contract());
  const bool same =
      std::any_of(recorded.begin(), recorded.end(), [&](const RunRecord& r) { return same_bits(r, now); });
  if (same) {
    result.verdict = Verdict::unchanged;
    return result;
  }
  result.step = first_difference(baseline, now);
  if (stock && is_stock(now.contract())) {
    judge_stock(result);
    return result;
  }
  result.verdict = Verdict::moved;
  result.note = baseline.contract() != now.contract()
                    ? fmt::format("the contract is {} now, {} before: other results are to be expected", now.contract(),
                                  baseline.contract())
                : result.step ? fmt::format("differs from step {} on; isobit's bits must not move", *result.step)
                              : "final weights or metrics differ; isobit's bits must not move";
  return result;
}

}  // namespace isobit::study
