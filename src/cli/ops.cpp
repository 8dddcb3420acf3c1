// isobit ops: every operator that PyTorch has registered, its class, and the contract's section or the reason.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

#include "archive/suggest.h"
#include "archive/user_error.h"
#include "aten/classification.h"
#include "bench/operator_coverage.h"
#include "cli/command.h"
#include "contract/platform.h"

namespace isobit::cli {
namespace {

using aten::OperatorClass;
using aten::OperatorInfo;

constexpr std::array kClasses = {OperatorClass::certified, OperatorClass::exact, OperatorClass::composite,
                                 OperatorClass::refused};

struct OpsOptions {
  std::string search, kind, samples;
  bool json = false, coverage = false;
};

void check_class(const std::string& kind) {
  if (kind.empty()) return;
  std::vector<std::string> names;
  for (const OperatorClass known : kClasses) names.emplace_back(to_string(known));
  if (std::find(names.begin(), names.end(), kind) != names.end()) return;
  const std::string nearest = archive::nearest(kind, names);
  throw archive::UserError(
      "--class", "unknown class '" + kind + "'",
      nearest.empty() ? "use certified, exact, composite or refused" : "did you mean '" + nearest + "'?");
}

std::string full_name(const OperatorInfo& info) {
  return info.overload.empty() ? info.name : info.name + "." + info.overload;
}

std::vector<OperatorInfo> select(const OpsOptions& options) {
  std::vector<OperatorInfo> all = aten::classify_all();
  std::erase_if(all, [&](const OperatorInfo& info) {
    return full_name(info).find(options.search) == std::string::npos ||
           (!options.kind.empty() && options.kind != to_string(info.kind));
  });
  // What can be used comes first; within a class the names are in order already.
  std::stable_sort(all.begin(), all.end(), [](const auto& a, const auto& b) { return a.kind < b.kind; });
  return all;
}

std::size_t count(const std::vector<OperatorInfo>& operators, OperatorClass kind) {
  return std::count_if(operators.begin(), operators.end(), [&](const auto& info) { return info.kind == kind; });
}

void print_json(const std::vector<OperatorInfo>& operators) {
  nlohmann::ordered_json out;
  out["contract"] = contract::kContractVersion;
  for (const OperatorClass kind : kClasses) out["counts"][std::string(to_string(kind))] = count(operators, kind);
  out["operators"] = nlohmann::ordered_json::array();
  for (const OperatorInfo& info : operators) {
    out["operators"].push_back({{"name", info.name},
                                {"overload", info.overload},
                                {"class", std::string(to_string(info.kind))},
                                {"reason", info.reason}});
  }
  fmt::print("{}\n", out.dump(2));
}

void print_text(const std::vector<OperatorInfo>& operators) {
  std::size_t width = 0;
  for (const OperatorInfo& info : operators) width = std::max(width, full_name(info).size());
  for (const OperatorInfo& info : operators) {
    fmt::print("{:<9}  {:<{}}  {}\n", to_string(info.kind), full_name(info), width, info.reason);
  }
  fmt::print("{} operators under {}:", operators.size(), contract::kContractVersion);
  const char* separator = " ";
  for (const OperatorClass kind : kClasses) {
    fmt::print("{}{} {}", separator, count(operators, kind), to_string(kind));
    separator = ", ";
  }
  fmt::print("\n");
}

void print_coverage(const OpsOptions& options) {
  const nlohmann::ordered_json coverage = bench::coverage_json(aten::classify_all(), options.samples);
  fmt::print("{}", options.json ? coverage.dump(2) + "\n" : bench::coverage_text(coverage));
}

Action declare_ops(OptionSet& app) {
  auto options = std::make_shared<OpsOptions>();
  app.add("--search", options->search, "only operators whose name contains this");
  app.add("--class", options->kind, "only one class: certified, exact, composite or refused");
  app.flag("--json", options->json, "as JSON");
  Option coverage = app.flag("--coverage", options->coverage, "counts by class and family instead of a list");
  app.add("--samples", options->samples, "with --coverage: what scripts/op-samples --out wrote").needs(coverage);
  coverage.excludes("--search").excludes("--class");
  return [options] {
    if (options->coverage) {
      print_coverage(*options);
      return 0;
    }
    check_class(options->kind);
    const std::vector<OperatorInfo> operators = select(*options);
    options->json ? print_json(operators) : print_text(operators);
    return 0;
  };
}

const CommandRegistration ops_command(
    {.name = "ops",
     .summary = "List PyTorch's operators: certified, exact, composite or refused",
     .example = "isobit ops --search conv\n  isobit ops --class certified --json\n  isobit ops --coverage",
     .group = Group::prove,
     .rank = 50,
     .declare = declare_ops});

}  // namespace
}  // namespace isobit::cli
