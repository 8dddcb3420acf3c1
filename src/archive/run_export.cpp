#include "archive/run_export.h"

#include <fmt/format.h>
#include <re2/re2.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <stdexcept>
#include <nlohmann/json.hpp>

#include "archive/files.h"
#include "archive/json_text.h"
#include "archive/manifest.h"
#include "archive/output_file.h"
#include "archive/run_state.h"
#include "archive/tar_file.h"
#include "archive/user_error.h"

namespace isobit::archive {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

constexpr const char* kExportFormat = "isobit-export-1";
constexpr const char* kRedacted = "secrets left out";
constexpr const char* kHomePaths = "home paths as ~";

// One text without home paths, and without secrets where that is asked for; findings where it is not.
std::string cleaned(const std::string& place, const std::string& text, const ExportOptions& options,
                    const SecretScan& scan, std::vector<std::string>& changes, std::vector<Finding>& findings) {
  const auto note = [&](const char* what) {
    if (std::find(changes.begin(), changes.end(), what) == changes.end()) changes.emplace_back(what);
  };
  std::string result = scan.without_home(text);
  if (result != text) note(kHomePaths);
  const std::vector<Finding> found = scan.find(place, result);
  if (found.empty()) return result;
  for (const Finding& finding : found) {
    if (!options.redact || finding.always) findings.push_back(finding);
  }
  if (!options.redact) return result;
  note(kRedacted);
  return scan.redacted(result);
}

// sources.json holds texts: each is looked at by itself, so that places are those of the program's files.
std::string cleaned_sources(const std::string& text, const ExportOptions& options, const SecretScan& scan,
                            std::vector<std::string>& changes, std::vector<Finding>& findings) {
  Json sources = parse_json(text);  // RunRecord::open has read it, too
  if (!sources.contains("files") || !sources["files"].is_object()) {
    throw UserError(kSourcesFile, "holds no program's sources", "restore the run's folder from a copy");
  }
  for (auto& [path, source] : sources["files"].items()) {
    const std::string before = source.get<std::string>();
    source = cleaned(fmt::format("{}: {}", kSourcesFile, path), before, options, scan, changes, findings);
  }
  return changes.empty() ? text : sources.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

void look_at_patch(const std::string& patch, const ExportOptions& options, const SecretScan& scan, ExportPlan& plan) {
  plan.patch = summarize_patch(patch);
  for (const PatchedFile& file : plan.patch) {
    if (file.binary && scan.is_key_file(file.path)) {
      plan.findings.push_back({fmt::format("{}:{}", kPatchFile, file.first_line),
                               fmt::format("{}, a private key's file that cannot be looked into", file.path), true});
      continue;
    }
    if (!scan.is_secret_file(file.path)) continue;
    if (options.redact) {
      throw UserError(file.path, "is among the uncommitted changes, and such a file usually holds secrets",
                      fmt::format("--redact cannot clean it; if it holds no secrets: --allow '{}'", file.path));
    }
    plan.findings.push_back({fmt::format("{}:{}", kPatchFile, file.first_line),
                             fmt::format("{}, a file that usually holds secrets", file.path), false});
  }
}

// "dirty.patch:12" becomes "dirty.patch:12 (train.py)".
void name_patched_files(ExportPlan& plan) {
  const std::string prefix = std::string(kPatchFile) + ":";
  for (Finding& finding : plan.findings) {
    if (!finding.place.starts_with(prefix)) continue;
    const std::int64_t line = std::stoll(finding.place.substr(prefix.size()));
    const PatchedFile* within = nullptr;
    for (const PatchedFile& file : plan.patch) {
      if (file.first_line <= line) within = &file;
    }
    if (within != nullptr) finding.place += fmt::format(" ({})", within->path);
  }
}

// The TorchScript file of an experiment that names one: its initial weights are needed.
void add_network(const RunRecord& record, ExportPlan& plan) {
  std::string network, sha;
  if (plan.files.contains(kNetworkFile) ||
      !RE2::PartialMatch(record.experiment(), R"re((?m)^torchscript = "(.*)"$)re", &network))
    return;
  RE2::PartialMatch(record.experiment(), R"re((?m)^sha256 = "([0-9a-f]{64})"$)re", &sha);
  std::error_code ignored;
  if (!fs::is_regular_file(network, ignored))
    throw UserError(network, "the run's TorchScript file is missing, and verifying needs it",
                    "call isobit export in the folder where the run was started");
  if (digest_file(network).sha256 != sha)
    throw UserError(network, "has changed since the run began", "restore the TorchScript file");
  plan.files[kNetworkFile] = network;
}

// state.json knows the digests of the inputs.
void update_state(ExportPlan& plan) {
  StateFile state = parse_state(plan.texts[kStateFile], kStateFile);
  bool other = false;
  for (auto& [path, digest] : state.inputs) {
    if (!plan.changed.contains(path)) continue;
    digest = {plan.texts[path].size(), sha256(plan.texts[path])};
    other = true;
  }
  if (other) plan.texts[kStateFile] = format_state(state);
}

std::string export_text(const ExportPlan& plan, const Manifest& sealed, const std::string& digest) {
  Json object{{"format", kExportFormat},
              {"run", plan.run},
              {"manifest", digest},
              {"left_out", Json::array()},
              {"changed", Json::array()}};
  for (const auto& [path, file] : plan.left_out)
    object["left_out"].push_back({{"path", path}, {"size", file.size}, {"sha256", file.sha256}});
  for (const auto& [path, changes] : plan.changed)
    object["changed"].push_back({{"path", path}, {"sha256", sealed.files.at(path).sha256}, {"changes", changes}});
  return object.dump(2) + "\n";
}

std::string readme_text(const RunRecord& record) {
  const bool script = record.experiment().find("[script]\n") != std::string::npos;
  return fmt::format(
      "The record of one training run, made by isobit. To execute it again and compare everything:\n\n"
      "    isobit verify FILE.tar{}\n\n"
      "It exits with {} if every step came out with the same bits, with 1 if one did not. {}{}\n"
      "export.json lists what was left out of the record or changed in it.\n",
      script ? "" : " --data FOLDER", record.is_stock() ? 3 : 0,
      record.is_stock() ? "Stock PyTorch computed,\nwhich promised nothing: neither proves anything of the record. "
                        : "",
      script ? "It runs the recorded program:\nread sources.json and dirty.patch first. Call it where the program's "
               "repository and its data are."
             : "data.json lists the\ndata's files with their digests.");
}

std::string digest_of(const std::string& manifest) {
  std::string digest;
  RE2::PartialMatch(manifest, R"re("digest": "([0-9a-f]{64})")re", &digest);
  return digest;
}

}  // namespace

ExportPlan plan_export(const RunRecord& record, const ExportOptions& options, const SecretScan& scan) {
  const fs::path& folder = record.folder();
  const std::string manifest_text = read_file(folder / kManifest);
  const Manifest sealed = parse_manifest(manifest_text, (folder / kManifest).string());
  ExportPlan plan;
  plan.run = sealed.run;
  for (const auto& [path, digest] : sealed.files) {
    if (is_checkpoint(path) && !options.with_weights) {
      plan.left_out[path] = digest;
    } else if (is_checkpoint(path) || path == kNetworkFile) {
      plan.files[path] = folder / path;
    } else {
      std::string text = read_file(folder / path);
      require_digest(text, digest, folder / path);
      std::vector<std::string> changes;
      if (path == kPatchFile) look_at_patch(text, options, scan, plan);
      plan.texts[path] = path == kSourcesFile ? cleaned_sources(text, options, scan, changes, plan.findings)
                                              : cleaned(path, text, options, scan, changes, plan.findings);
      if (!changes.empty()) plan.changed[path] = changes;
    }
  }
  name_patched_files(plan);
  add_network(record, plan);
  update_state(plan);
  // What was exported before and comes out as it is keeps what it says of the original.
  const bool same = plan.left_out.empty() && plan.changed.empty();
  if (!same || !plan.texts.contains(kExportFile))
    plan.texts[kExportFile] = export_text(plan, sealed, digest_of(manifest_text));
  if (!plan.texts.contains(kExportReadme)) plan.texts[kExportReadme] = readme_text(record);
  return plan;
}

FileDigest write_export(const ExportPlan& plan, const fs::path& path) {
  if (!plan.findings.empty()) throw std::logic_error("an export with findings must not be written");
  OutputFile out(path);
  Manifest manifest;
  manifest.run = plan.run;
  for (const auto& [name, text] : plan.texts) manifest.files[name] = {text.size(), sha256(text)};
  for (const auto& [name, file] : plan.files) manifest.files[name] = digest_file(file);
  std::map<std::string, TarEntry> entries;
  const auto add = [&](const std::string& name, std::string text, const fs::path& file) {
    entries[name] = {plan.run + "/" + name, std::move(text), file};
  };
  for (const auto& [name, text] : plan.texts) add(name, text, {});
  for (const auto& [name, file] : plan.files) add(name, "", file);
  add(kManifest, format_manifest(manifest), {});
  std::vector<TarEntry> sorted;
  for (auto& [name, entry] : entries) sorted.push_back(std::move(entry));
  write_tar(out, sorted);
  out.commit();
  return digest_file(path);
}

fs::path import_run(const fs::path& file, const fs::path& runs, Keep keep) {
  make_folders(runs);
  const fs::path making = runs / (".tmp-import-" + random_suffix());
  make_folders(making);
  const auto remove = [&] {
    std::error_code ignored;
    fs::remove_all(making, ignored);
  };
  try {
    const std::string id = unpack_tar(file, making);
    std::error_code error;
    if (fs::exists(runs / id, error))
      throw UserError((runs / id).string(), "exists already", "name another folder, or verify that run");
    if (!fs::exists(making / id / kManifest))
      throw UserError(file.string(), "holds no sealed record", "get the file again from where it was exported");
    try {
      if (RunRecord::open(making / id).summary().id != id)
        throw UserError(id, "does not match the run's id in state.json", "");
    } catch (const UserError& damage) {
      throw UserError(file.string(),
                      fmt::format("{}: {}", fs::path(damage.place()).filename().string(), damage.problem()),
                      "get the file again from where it was exported");
    }
    if (keep == Keep::durable) sync_file_system(making / id);
    fs::rename(making / id, runs / id, error);
    if (error) throw_file_error(runs / id, "cannot be created", error.value());
    if (keep == Keep::durable) sync_folder(runs);
    remove();
    return runs / id;
  } catch (...) {
    remove();
    throw;
  }
}

TemporaryFolder::TemporaryFolder() {
  std::string name = (fs::temp_directory_path() / "isobit-XXXXXX").string();
  if (::mkdtemp(name.data()) == nullptr) throw_file_error(name, "cannot be created", errno);
  path_ = name;
}

TemporaryFolder::~TemporaryFolder() {
  std::error_code ignored;
  fs::remove_all(path_, ignored);
}

}  // namespace isobit::archive
