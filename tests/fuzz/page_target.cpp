// What a report shows of other commands' results. The first byte says whose; what a reader takes must fit on a page.
#include <nlohmann/json.hpp>

#include "fuzz/target.h"
#include "fuzz/targets.h"
#include "report/document.h"
#include "report/page.h"

namespace isobit::fuzz {
namespace {

namespace fs = std::filesystem;

const char* const kDiff =
    R"({"format":"isobit-diff-1","results":"differ","a":{"id":"x"},"b":{"id":"y"},"differences":[{"part":"data","key":"k","a":"1","b":null,"counts":true}],)"
    R"("code_diff":"","compared":{"steps":3},"first_step":{"step":17,"epoch":1,"field":"loss","a":"3ff8ab12","b":"3ff8ab13"},)"
    R"("operator":{"step":17,"name":"aten::addmm","shape":[2,3],"max_ulp":3,"at":[0,1],"differing":1,"elements":6},"not_looked_into":""})";
const char* const kDrift =
    R"({"format":"isobit-drift-1","reference":"x","runs":["y"],"steps":[1,2],"layers":["w"],"cells":[{"run":"y","step":1,"layer":"w","max_ulp":2,)"
    R"("median_ulp":0,"relative_norm":1e-7,"flipped_signs":0}],"per_step":[{"run":"y","step":1,"loss":0.5,"loss_difference":"nan","accuracy":null,"churn":0.1}]})";
const char* const kCells =
    R"({"format":"isobit-study-cells-1","name":"s","metric":"accuracy","cells":[{"index":0,"factors":{"seed":1},"repeat":0,"fold":null,"group":null,)"
    R"("state":"finished","run":"","value":0.5,"note":""}]})";
const char* const kResults =
    R"({"format":"isobit-study-1","name":"s","metric":"accuracy","summary":[{"factors":{"seed":1},"n":1,"mean":0.5,"sd":null,"low":0.4,"high":0.6}],)"
    R"("components":[{"factor":"seed","variance":1e-6,"share":1,"low":0,"high":1}],"comparisons":[{"factor":"seed","a":1,"b":"2","n":3,"difference":0.1,)"
    R"("verdict":"none"}],"warnings":["w"]})";
const char* const kPredictions =
    R"({"step":1,"epoch":1,"set":"test","predictions":[0,1,2],"targets":"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"})"
    "\n";

void show(const report::ReportParts& parts) {
  const std::string page = report::page(report::document(parts));
  const auto begin = page.find("id=\"report\">") + 12, end = page.find("</script>", begin);
  const std::string data = page.substr(begin, end - begin);
  require(data.find_first_of("<>&") == std::string::npos, "no text of a record is markup");
  require(report::Json::parse(data).contains("runs"), "the page's data are JSON");
}

}  // namespace

void run_page(std::string_view input) {
  if (input.empty()) return;
  const fs::path folder = scratch() / "page", file = folder / "input.json";
  fs::create_directories(folder);
  const std::string_view text = input.substr(1);
  report::ReportParts parts;
  switch (static_cast<unsigned char>(input[0]) % 6) {
    case 0:
      put(file, text);
      if (accepts([&] { parts.diff = report::read_diff(file); })) show(parts);
      break;
    case 1:
      put(file, text);
      if (accepts([&] { parts.drift = report::read_drift(file); })) show(parts);
      break;
    case 2:
    case 3: {
      const bool cells = static_cast<unsigned char>(input[0]) % 6 == 2;
      put(folder / "cells.json", cells ? text : kCells);
      put(folder / "results.json", cells ? kResults : text);
      if (accepts([&] { parts.study = report::read_study(folder); })) show(parts);
      break;
    }
    case 4: {
      report::RunEntry run;
      if (accepts(
              [&] { run.predictions = report::last_predictions(text, "predictions.jsonl", text.size() % 2 == 0); })) {
        parts.runs.push_back(run);
        show(parts);
      }
      break;
    }
    default:
      put(file, text);
      accepts([&] { (void)report::digest_of_targets(report::read_targets(file)); });
      break;
  }
}

std::vector<std::string> page_seeds() {
  using namespace std::string_literals;
  return {"\0"s + kDiff,      "\1"s + kDrift, "\2"s + kCells, "\3"s + kResults, "\4"s + kPredictions + kPredictions,
          "\5"s + "0\n1\n2\n"};
}

}  // namespace isobit::fuzz
