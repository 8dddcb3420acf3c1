#include "archive/tuning_text.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "archive/environment.h"
#include "archive/tuning_file.h"

namespace isobit::archive {

void print_tuning(const kernels::Tuning& tuning, const TuningReport& report) {
  if (report.json) {
    nlohmann::ordered_json json{{"cpu", cpu_name()}};
    if (report.measured) json["threads"] = report.threads, json["isa"] = report.isa;
    json["file"] = report.file;
    if (report.measured) json["saved"] = report.saved;
    for (const kernels::TuningKey& key : kernels::tuning_keys()) json["sizes"][key.name] = tuning.*key.member;
    fmt::print("{}\n", json.dump());
    return;
  }
  fmt::print("{:20} {:>10} {:>10}\n", "size", "default", "tuned");
  for (const kernels::TuningKey& key : kernels::tuning_keys()) {
    fmt::print("{:20} {:>10} {:>10}  {}\n", key.name, kernels::Tuning{}.*key.member, tuning.*key.member, key.meaning);
  }
  if (report.measured) {
    fmt::print("{:.1f} % saved on products and convolutions; {}\n", 100 * report.saved,
               report.file.empty() ? "nothing written" : "written to " + report.file);
  } else {
    fmt::print("{}\n", report.file.empty() ? "the defaults: no table for this processor" : "from " + report.file);
  }
}

void show_tuning(bool json) {
  const bool found = load_tuning();
  print_tuning(kernels::tuning(), {.file = found ? tuning_path().string() : "", .json = json});
}

}  // namespace isobit::archive
