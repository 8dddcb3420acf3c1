// RO-Crate 1.1 (https://w3id.org/ro/crate/1.1) with the profile Process Run Crate 0.5: what was executed, on what, with
// which result.
#include <fmt/format.h>

#include "archive/files.h"
#include "archive/json_text.h"
#include "archive/run_state.h"
#include "archive/sha256.h"
#include "report/export_formats.h"
#include "report/output_folder.h"
#include "report/tables.h"

namespace isobit::report {
namespace {

constexpr const char* kProfile = "https://w3id.org/ro/wfrun/process/0.5";
constexpr const char* kTar = "run.tar";

Json reference(const std::string& id) { return {{"@id", id}}; }

Json file_entity(const std::string& name, const std::string& type, const std::string& what, std::uint64_t size,
                 const std::string& sha256) {
  return {{"@id", name},
          {"@type", "File"},
          {"name", what},
          {"encodingFormat", type},
          {"contentSize", std::to_string(size)},
          {"sha256", sha256}};
}

// The data files, which the crate does not hold: by name and digest.
Json data_entities(const archive::ExportPlan& plan) {
  Json entities = Json::array();
  const Json data = archive::parse_json(plan.texts.at(archive::kDataFile));
  if (!data.is_object() || !data.contains("files") || !data["files"].is_array()) return entities;
  for (const Json& file : data["files"]) {
    if (!file.is_object() || !file.contains("sha256") || !file["sha256"].is_string()) continue;
    const auto digest = file["sha256"].get<std::string>();
    entities.push_back({{"@id", "#data-" + digest.substr(0, 64)},
                        {"@type", "CreativeWork"},
                        {"name", file.value("name", Json(""))},
                        {"identifier", "sha256:" + digest},
                        {"description", "a data file that was trained or tested on; it is not part of this crate"}});
  }
  return entities;
}

}  // namespace

void write_ro_crate(const archive::ExportPlan& plan, const archive::RunRecord& record,
                    const std::filesystem::path& folder) {
  OutputFolder out(folder);
  Json parts = Json::array(), entities = Json::array();
  const auto add = [&](Json entity) {
    parts.push_back(reference(entity["@id"].get<std::string>()));
    entities.push_back(std::move(entity));
  };
  const archive::FileDigest tar = archive::write_export(plan, out.at(kTar));
  add(file_entity(kTar, "application/x-tar", "The record of the run: isobit verify run.tar executes it again", tar.size,
                  tar.sha256));
  const Json tables = run_tables(plan.texts);  // named: items() of a temporary would outlive it
  for (const auto& [name, table] : tables.items()) {
    const std::string text = csv_text(table), file = name + ".csv";
    out.write(file, text);
    add(file_entity(file, "text/csv", "Table " + name + " of the record", text.size(), archive::sha256(text)));
  }
  const archive::RunSummary& summary = record.summary();
  const Json environment = archive::parse_json(plan.texts.at(archive::kEnvironmentFile));
  std::string version;
  if (environment.is_object() && environment.contains("program") && environment["program"].is_object())
    version = environment["program"].value("version", "");
  Json objects = Json::array();
  const Json data = data_entities(plan);
  for (const Json& entity : data) objects.push_back(reference(entity["@id"].get<std::string>()));
  Json graph = Json::array();
  graph.push_back({{"@id", "ro-crate-metadata.json"},
                   {"@type", "CreativeWork"},
                   {"conformsTo", reference("https://w3id.org/ro/crate/1.1")},
                   {"about", reference("./")}});
  graph.push_back({{"@id", "./"},
                   {"@type", "Dataset"},
                   {"name", "Training run " + summary.id},
                   {"description", fmt::format("The record of a training run by isobit, contract {}. Anyone can "
                                               "execute it again with isobit verify {} and must get the weights {}.",
                                               summary.contract, kTar, summary.weights)},
                   {"datePublished", summary.created},
                   {"license", "not stated by the record"},
                   {"identifier", "sha256:" + record.seal()},
                   {"conformsTo", reference(kProfile)},
                   {"hasPart", parts},
                   {"mentions", reference("#run")}});
  graph.push_back({{"@id", kProfile}, {"@type", "CreativeWork"}, {"name", "Process Run Crate"}, {"version", "0.5"}});
  graph.push_back(
      {{"@id", "#run"},
       {"@type", "CreateAction"},
       {"name", summary.name},
       {"startTime", summary.created},
       {"actionStatus", reference("http://schema.org/CompletedActionStatus")},
       {"instrument", reference("#isobit")},
       {"object", objects},
       {"result", reference(kTar)},
       {"description", fmt::format("weights {}; sha256 {}; claimed by the recorder: startTime, and the run's id",
                                   summary.weights, summary.weights_sha256)}});
  graph.push_back({{"@id", "#isobit"},
                   {"@type", "SoftwareApplication"},
                   {"name", "isobit"},
                   {"softwareVersion", version},
                   {"description", "deep learning that gives the same answer twice"}});
  for (const Json& entity : entities) graph.push_back(entity);
  for (const Json& entity : data) graph.push_back(entity);
  const Json crate{{"@context", "https://w3id.org/ro/crate/1.1/context"}, {"@graph", graph}};
  out.write("ro-crate-metadata.json", crate.dump(2, ' ', true, Json::error_handler_t::replace) + "\n");
  out.commit();
}

}  // namespace isobit::report
