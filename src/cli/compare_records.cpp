#include "cli/compare_records.h"

#include <fmt/format.h>

#include <algorithm>

#include "archive/log_lines.h"

namespace isobit::cli {
namespace {

using archive::RunRecord;
using train::Difference;

std::optional<Difference> difference_at(std::int64_t step, const char* what, const std::string& recorded,
                                        const std::string& recomputed) {
  const auto shown = [](const std::string& text) { return text.empty() ? "nothing" : text; };
  if (recorded == recomputed) return {};
  return Difference{step, what, shown(recorded), shown(recomputed)};
}

std::optional<Difference> different_step(const archive::StepLine& a, const archive::StepLine& b) {
  if (auto d = difference_at(a.step, "epoch", std::to_string(a.epoch), std::to_string(b.epoch))) return d;
  if (auto d = difference_at(a.step, "batch", a.batch, b.batch)) return d;
  if (auto d = difference_at(a.step, "loss", fmt::format("{:08x}", a.loss_bits), fmt::format("{:08x}", b.loss_bits)))
    return d;
  if (auto d = difference_at(a.step, "weights", a.weights, b.weights)) return d;
  return difference_at(a.step, "optimizer", a.optimizer, b.optimizer);
}

std::optional<Difference> different_count(std::int64_t step, const char* what, std::size_t a, std::size_t b) {
  return difference_at(step, what, std::to_string(a), std::to_string(b));
}

template <class Line>
std::string line_of(const Line& line) {
  const std::string text = format_line(line);
  return text.substr(0, text.size() - 1);
}

std::optional<Difference> different_evaluation(const RunRecord& a, const RunRecord& b, std::int64_t last) {
  if (!a.evaluations() || !b.evaluations()) return {};  // records of earlier versions have none
  const auto &before = *a.evaluations(), &now = *b.evaluations();
  for (std::size_t i = 0; i < std::min(before.size(), now.size()); ++i) {
    if (auto d = difference_at(before[i].step, "evaluated batches", before[i].batches, now[i].batches)) return d;
    if (auto d = difference_at(before[i].step, "evaluated batches", line_of(before[i]), line_of(now[i]))) return d;
  }
  return different_count(last, "evaluations", before.size(), now.size());
}

}  // namespace

std::optional<Difference> first_difference(const RunRecord& a, const RunRecord& b) {
  const std::size_t steps = std::min(a.steps().size(), b.steps().size());
  for (std::size_t i = 0; i < steps; ++i) {
    if (auto d = different_step(a.steps()[i], b.steps()[i])) return d;
  }
  if (auto d = different_count(static_cast<std::int64_t>(steps + 1), "steps", a.steps().size(), b.steps().size()))
    return d;
  const auto last = static_cast<std::int64_t>(steps);
  for (std::size_t i = 0; i < std::min(a.metrics().size(), b.metrics().size()); ++i) {
    if (auto d = difference_at(a.metrics()[i].step, "metrics", line_of(a.metrics()[i]), line_of(b.metrics()[i])))
      return d;
  }
  if (auto d = different_count(last, "metrics", a.metrics().size(), b.metrics().size())) return d;
  if (auto d = different_evaluation(a, b, last)) return d;
  return difference_at(last, "weights", a.weights(), b.weights());
}

}  // namespace isobit::cli
