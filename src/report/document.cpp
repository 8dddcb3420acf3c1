#include "report/document.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "archive/json_text.h"
#include "archive/printable.h"
#include "archive/user_error.h"
#include "component/component.h"
#include "report/page_section.h"
#include "report/qr_code.h"
#include "report/tables.h"

namespace isobit::report {
namespace {

constexpr std::size_t kMostPoints = 1200, kFewestPoints = 60, kPointsOfAll = 240'000;
constexpr std::size_t kRunsWithQrCode = 4, kLongestSetting = 2000;

std::string shortened(const std::string& text, std::size_t longest = kLongestSetting) {
  const std::string printable = archive::printable(text);
  return printable.size() <= longest ? printable : printable.substr(0, longest) + "...";
}

Json curve_json(const Curve& curve, std::size_t most) {
  const Curve thinned = thin(curve.steps, curve.values, most);
  Json object{{"of", thinned.of}, {"steps", thinned.steps}, {"values", Json::array()}};
  for (const double value : thinned.values) object["values"].push_back(number(value));
  return object;
}

// {"test": {"accuracy": curve, "loss": curve}}
Json metrics_json(const std::vector<archive::MetricsLine>& lines, std::size_t most) {
  std::map<std::string, std::map<std::string, Curve>> curves;
  for (const archive::MetricsLine& line : lines) {
    for (const auto& [name, value] : line.values) {
      Curve& curve = curves[line.set][name];
      curve.steps.push_back(line.step);
      curve.values.push_back(value);
    }
  }
  Json sets = Json::object();
  for (const auto& [set, by_name] : curves) {
    for (const auto& [name, curve] : by_name)
      sets[archive::printable(set)][archive::printable(name)] = curve_json(curve, most);
  }
  return sets;
}

// A confusion matrix where the true classes are known, else why there is none.
Json predictions_json(const RunEntry& run, const TargetsByDigest& targets) {
  Json list = Json::array();
  for (const PredictionsLine& line : run.predictions) {
    Json item{{"set", archive::printable(line.set)},
              {"step", line.step},
              {"samples", line.predictions.size()},
              {"targets", line.targets},
              {"counts", nullptr},
              {"why", ""}};
    const auto known = targets.find(line.targets);
    if (known == targets.end()) {
      item["why"] =
          "the record holds only a digest of the true classes, and no data that has it was found here; --targets FILE "
          "gives them";
    } else {
      const auto counts = confusion(known->second, line.predictions);
      if (counts.empty()) {
        item["why"] = fmt::format("there are more than {} classes", kMostClasses);
      } else {
        item["counts"] = counts;
      }
    }
    list.push_back(item);
  }
  return list;
}

Json settings_json(const Settings& settings) {
  Json object = Json::object();
  for (const auto& [key, value] : settings) {
    if (object.size() >= 5000) break;  // an ordered object looks through all keys for each new one
    object[shortened(key, 200)] = shortened(value);
  }
  return object;
}

Json parsed(const std::string& text) {
  try {
    return printable_json(archive::parse_json(text));
  } catch (const std::exception&) {  // a damaged or missing file, which is said elsewhere
    return nullptr;
  }
}

// What the code on paper says: enough to find the record and to see that it is the same one.
std::string statement(const RunEntry& run) {
  return fmt::format("{}\nweights {}\nseal {}\n", run.verify, run.summary.weights, run.seal);
}

std::string default_title(const ReportParts& parts) {
  if (parts.study) return fmt::format("Study {}", parts.study->cells["name"].get<std::string>());
  if (parts.runs.size() == 1) return archive::printable(parts.runs[0].summary.name);
  if (parts.runs.size() == 2 && parts.runs[0].summary.name != parts.runs[1].summary.name) {
    return fmt::format("{} and {}", archive::printable(parts.runs[0].summary.name),
                       archive::printable(parts.runs[1].summary.name));
  }
  std::set<std::string> names;
  for (const RunEntry& run : parts.runs) names.insert(run.summary.name);
  if (names.size() == 1) return fmt::format("{}: {} runs", archive::printable(*names.begin()), parts.runs.size());
  return fmt::format("{} runs", parts.runs.size());
}

void require_known_targets(const ReportParts& parts) {
  if (!parts.targets) return;
  const std::string digest = digest_of_targets(*parts.targets);
  bool any = false;
  for (const RunEntry& run : parts.runs) {
    for (const PredictionsLine& line : run.predictions) {
      if (line.targets == digest) return;
      any = true;
    }
  }
  throw archive::UserError(
      "--targets",
      any ? fmt::format("no run was evaluated on these {} classes: their SHA-256 is {}", parts.targets->size(), digest)
          : "no run kept its predictions",
      any ? "write them in the order of the evaluated samples, one per line"
          : "set evaluate.predictions = true in the experiment");
}

}  // namespace

std::size_t points_per_curve(std::size_t runs) {
  return std::clamp(kPointsOfAll / std::max<std::size_t>(runs, 1), kFewestPoints, kMostPoints);
}

Json run_json(const RunEntry& run, std::size_t points, const TargetsByDigest& targets) {
  const archive::RunSummary& summary = run.summary;
  Json object{{"id", archive::printable(summary.id)},
              {"name", archive::printable(summary.name)},
              {"state", archive::to_string(summary.state)},
              {"note", shortened(summary.note)},
              {"created", archive::printable(summary.created)},
              {"contract", archive::printable(summary.contract)},
              {"stock", is_stock(summary)},
              {"script", run.script},
              {"steps", summary.steps},
              {"weights", archive::printable(summary.weights)},
              {"weights_sha256", summary.weights_sha256},
              {"seal", run.seal},
              {"record", run.record},
              {"path", archive::printable(run.path)},
              {"verify", archive::printable(run.verify)},
              {"seconds", number(run.seconds)},
              {"loss", curve_json(run.loss, points)},
              {"metrics", metrics_json(run.metrics, std::max<std::size_t>(points / 4, 16))},
              {"predictions", predictions_json(run, targets)},
              {"outside", Json::array()}};
  object["loss"]["of"] = run.loss.of;
  if (!run.sections.empty()) object["sections"] = run.sections;
  for (const auto& [name, text] : run.parts) {
    const component::Component* missing = component::missing(component::Brings::record_part, name);
    object["parts"].push_back(
        missing == nullptr ? name : fmt::format("{} (component '{}' is not built here)", name, missing->name));
  }
  for (const archive::OutsideLine& line : run.outside) {
    if (object["outside"].size() < 20) object["outside"].push_back(archive::printable(archive::describe(line)));
  }
  return object;
}

Json document(const ReportParts& parts) {
  require_known_targets(parts);
  Json object{{"format", "isobit-report-1"},
              {"title", parts.title.empty() ? default_title(parts) : archive::printable(parts.title)},
              {"runs", Json::array()}};
  std::vector<const Settings*> settings;
  for (const RunEntry& run : parts.runs) {
    if (run.summary.state != archive::RunState::damaged) settings.push_back(&run.settings);
  }
  const SharedSettings shared = compare_settings(settings);
  object["common"] = settings_json(shared.common);
  object["differing"] = Json::array();
  for (const std::string& key : shared.differing) object["differing"].push_back(shortened(key, 200));
  const std::set<std::string> differing(shared.differing.begin(), shared.differing.end());
  const std::size_t points = points_per_curve(parts.runs.size());
  TargetsByDigest targets = parts.found_targets;
  if (parts.targets) targets[digest_of_targets(*parts.targets)] = *parts.targets;
  std::map<std::string, std::size_t> environments;
  object["environments"] = Json::array();
  for (const RunEntry& run : parts.runs) {
    Json entry = run_json(run, points, targets);
    Settings own;
    for (const auto& item : run.settings) {
      if (differing.contains(item.first)) own.push_back(item);
    }
    entry["settings"] = settings_json(own);
    const auto [at, fresh] = environments.try_emplace(run.environment, environments.size());
    if (fresh) object["environments"].push_back(parsed(run.environment));
    entry["environment"] = at->second;
    if (parts.runs.size() <= kRunsWithQrCode) {
      entry["data"] = parsed(run.data);
      if (!run.verify.empty()) entry["qr"] = {{"text", statement(run)}, {"rows", qr_code(statement(run))}};
    }
    object["runs"].push_back(std::move(entry));
  }
  object["study"] = nullptr;
  if (parts.study) object["study"] = {{"cells", parts.study->cells}, {"results", parts.study->results}};
  for (const PageSection& section : page_sections()) {
    if (!section.of_page) continue;
    if (const Json whole = section.of_page(parts); !whole.is_null())
      object["sections"][section.name] = printable_json(whole);
  }
  object["diff"] = parts.diff ? *parts.diff : Json(nullptr);
  object["drift"] = parts.drift ? *parts.drift : Json(nullptr);
  return object;
}

}  // namespace isobit::report
