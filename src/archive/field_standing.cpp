#include "archive/field_standing.h"

#include <algorithm>

namespace isobit::archive {
namespace {

using enum Standing;

constexpr std::string_view kExperiment = "experiment.toml";

constexpr Field kFields[] = {
    {"state.json", "format", bound, "one spelling"},
    {"state.json", "id", claimed, "chosen when the run began"},
    {"state.json", "name", bound, "the experiment's, or the name that the program gives its run again"},
    {"state.json", "contract", recomputed, "verify computes by this version or refuses; of stock it says so"},
    {"state.json", "created", claimed, "a clock"},
    {"state.json", "state", bound, "a sealed run is finished"},
    {"state.json", "steps", recomputed, ""},
    {"state.json", "weights", recomputed, ""},
    {"state.json", "weights_sha256", recomputed, ""},
    {"state.json", "reason", bound, "empty"},
    {"state.json", "inputs.*.size", bound, "the file"},
    {"state.json", "inputs.*.sha256", bound, "the file"},
    {"manifest.json", "format", bound, "one spelling"},
    {"manifest.json", "run", bound, "state.json's id"},
    {"manifest.json", "files.[].path", bound, "the file"},
    {"manifest.json", "files.[].size", bound, "the file"},
    {"manifest.json", "files.[].sha256", bound, "the file"},
    {"manifest.json", "digest", bound, "the manifest itself"},
    {"experiment.toml", "*", bound, "verify executes exactly this, and refuses a line that isobit would not write"},
    {"experiment.toml", "script.dirty", claimed, "verify does not look whether the working tree was clean"},
    {"experiment.toml", "script.commit", bound,
     "verify writes its files out; where it cannot, or other text ran, it says so"},
    {"experiment.toml", "script.fingerprint_every", recomputed, ""},
    {"experiment.toml", "script.patch_applies", claimed, "verify tries the patch itself"},
    {"experiment.toml", "script.file", bound, "verify executes exactly this"},
    {"experiment.toml", "script.folder", bound, "verify executes exactly this"},
    {"experiment.toml", "script.arguments", bound, "verify executes exactly this, and names others that it is given"},
    {"experiment.toml", "script.processes", recomputed, ""},
    {"experiment.toml", "script.arithmetic", bound, "state.json's contract"},
    {"experiment.toml", "script.products", bound, "state.json's contract"},
    {"experiment.toml", "script.predictions", recomputed, ""},
    {"experiment.toml", "script.fingerprint_gradients", recomputed, ""},
    {"data.json", "format", bound, "the experiment's"},
    {"data.json", "decoder", claimed, "the library that read the images; steps.jsonl has digests of what it gave"},
    {"data.json", "files.[].name", bound, "the experiment's; a program has none"},
    {"data.json", "files.[].size", bound, "the data"},
    {"data.json", "files.[].sha256", bound, "the data"},
    {"data.json", "note", claimed, "of a program: its batches are in steps.jsonl"},
    {"environment*.json", "*", claimed, "the machine and the libraries that the run was executed with"},
    {"part-*.json", "*", claimed, "what the component says of it when it verifies: recomputed, or not"},
    {"sources.json", "format", bound, "one spelling"},
    {"sources.json", "files.*", bound,
     "verify executes exactly this, and names what the program did not import, or imported besides"},
    {"dirty.patch", "", bound, "verify applies it to the commit; where it cannot, it says so"},
    {"steps.jsonl", "step", recomputed, ""},
    {"steps.jsonl", "epoch", recomputed, ""},
    {"steps.jsonl", "loss", recomputed, ""},
    {"steps.jsonl", "batch", recomputed, ""},
    {"steps.jsonl", "gradients", recomputed, ""},
    {"steps.jsonl", "weights", recomputed, ""},
    {"steps.jsonl", "optimizer", recomputed, ""},
    {"metrics.jsonl", "step", recomputed, ""},
    {"metrics.jsonl", "epoch", recomputed, ""},
    {"metrics.jsonl", "set", recomputed, ""},
    {"metrics.jsonl", "values.*", recomputed, ""},
    {"predictions.jsonl", "step", recomputed, ""},
    {"predictions.jsonl", "epoch", recomputed, ""},
    {"predictions.jsonl", "set", recomputed, ""},
    {"predictions.jsonl", "predictions.[]", recomputed, ""},
    {"predictions.jsonl", "targets", recomputed, ""},
    {"evaluations.jsonl", "step", recomputed, ""},
    {"evaluations.jsonl", "epoch", recomputed, ""},
    {"evaluations.jsonl", "tensors", recomputed, ""},
    {"evaluations.jsonl", "batches", recomputed, ""},
    {"outside.jsonl", "after", recomputed, ""},
    {"outside.jsonl", "until", recomputed, ""},
    {"outside.jsonl", "place", recomputed, ""},
    {"outside.jsonl", "call", recomputed, ""},
    {"timings.jsonl", "step", claimed, "a clock"},
    {"timings.jsonl", "phase", claimed, "a clock"},
    {"timings.jsonl", "seconds", claimed, "a clock"},
    {"timings.jsonl", "samples", claimed, "a clock"},
    {"checkpoints.jsonl", "step", bound, "a step of the run"},
    {"checkpoints.jsonl", "file", bound, "the step"},
    {"checkpoints.jsonl", "size", bound, "the file; of one that was deleted it is claimed"},
    {"checkpoints.jsonl", "sha256", bound, "the file; of one that was deleted it is claimed"},
    {"checkpoints.jsonl", "weights_sha256", recomputed, ""},
    {"checkpoints.jsonl", "logs.*.size", bound, "the log's beginning"},
    {"checkpoints.jsonl", "logs.*.sha256", bound, "the log's beginning"},
    {"checkpoints/*", "", recomputed,
     "tensors and state, also where a segment starts; of a program's every byte that torch.load reads, but the digits "
     "by which PyTorch names versions of the format"},
    {"network.pt", "", bound, "the experiment's model.sha256"},
    {"export.json", "format", bound, "one spelling"},
    {"export.json", "run", bound, "state.json's id"},
    {"export.json", "manifest", claimed, "the seal of a record that is not at hand"},
    {"export.json", "left_out.[].path", claimed, "files that are not at hand"},
    {"export.json", "left_out.[].size", claimed, "files that are not at hand"},
    {"export.json", "left_out.[].sha256", claimed, "files that are not at hand"},
    {"export.json", "changed.[].path", claimed, "files that are not at hand"},
    {"export.json", "changed.[].sha256", claimed, "files that are not at hand"},
    {"export.json", "changed.[].changes.[]", claimed, "words of the one who exported it"},
    {"README.txt", "", claimed, "words of the one who exported it"},
};

bool fits_file(std::string_view pattern, std::string_view file) {
  const auto star = pattern.find('*');
  if (star == std::string_view::npos) return pattern == file;
  return file.size() >= pattern.size() - 1 && file.starts_with(pattern.substr(0, star)) &&
         file.ends_with(pattern.substr(star + 1));
}

// A lone "*" is any way from the top.
bool fits_key(std::string_view pattern, const std::vector<std::string>& key) {
  if (pattern == "*") return true;
  for (const std::string& part : key) {
    const auto dot = pattern.find('.');
    const std::string_view expected = pattern.substr(0, dot);
    if (pattern.empty() || (expected != "*" && expected != part)) return false;
    pattern = dot == std::string_view::npos ? "" : pattern.substr(dot + 1);
  }
  return pattern.empty();
}

}  // namespace

const char* to_string(Standing standing) {
  switch (standing) {
    case recomputed: return "recomputed";
    case bound: return "bound";
    case claimed: return "claimed";
  }
  return "claimed";
}

std::span<const Field> record_fields() { return kFields; }

std::vector<std::string> claimed_settings(std::string_view experiment) {
  std::vector<std::string> keys;
  for (const Field& field : kFields) {
    if (field.file != kExperiment || field.standing != claimed) continue;
    const auto dot = field.key.find('.');
    const std::string table = "[" + std::string(field.key.substr(0, dot)) + "]\n";
    const auto begin = experiment.find(table);
    if (begin == std::string_view::npos) continue;
    const std::string_view text = experiment.substr(begin, experiment.find("\n[", begin) - begin);
    if (text.find("\n" + std::string(field.key.substr(dot + 1)) + " = ") != std::string_view::npos)
      keys.emplace_back(field.key);
  }
  return keys;
}

const Field* find_field(std::string_view file, const std::vector<std::string>& key) {
  const Field* found = nullptr;
  for (const Field& field : kFields) {  // the more special rows come after "*"
    // No other row stands for a key of a program.
    if (file == kExperiment && field.key == "*" && !key.empty() && key[0] == "script") continue;
    if (fits_file(field.file, file) && fits_key(field.key, key) && (found == nullptr || found->key == "*"))
      found = &field;
  }
  return found;
}

}  // namespace isobit::archive
