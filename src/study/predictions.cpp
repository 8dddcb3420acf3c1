#include "study/predictions.h"

#include "archive/files.h"

namespace isobit::study {

std::vector<PredictionLine> read_predictions(const std::filesystem::path& run) {
  const auto path = run / kPredictionsFile;
  if (!archive::is_there(path)) return {};
  return archive::parse_log<PredictionLine>(archive::read_file(path), path);
}

std::optional<double> churn(const PredictionLine& a, const PredictionLine& b) {
  if (a.set != b.set || a.targets != b.targets || a.predictions.size() != b.predictions.size() || a.predictions.empty())
    return std::nullopt;
  std::int64_t different = 0;
  for (std::size_t i = 0; i < a.predictions.size(); ++i) different += a.predictions[i] != b.predictions[i] ? 1 : 0;
  return static_cast<double>(different) / static_cast<double>(a.predictions.size());
}

}  // namespace isobit::study
