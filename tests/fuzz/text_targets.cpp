// Readers of a text in memory. What they accept they write again: in the same bytes where the format has one spelling.
#include <nlohmann/json.hpp>

#include "archive/json_text.h"
#include "archive/lock_owner.h"
#include "archive/log_lines.h"
#include "archive/manifest.h"
#include "archive/patch_summary.h"
#include "archive/printable.h"
#include "archive/run_lock.h"
#include "archive/run_state.h"
#include "archive/secret_scan.h"
#include "fuzz/target.h"
#include "fuzz/targets.h"

namespace isobit::fuzz {
namespace {

using namespace archive;
using Json = nlohmann::ordered_json;

const std::string kDigits(32, 'c'), kSha(64, 'd');

int depth_of(const Json& json) {
  int deepest = 0;
  if (json.is_structured()) {
    for (const Json& part : json) deepest = std::max(deepest, depth_of(part));
  }
  return json.is_structured() ? deepest + 1 : 0;
}

// An object that takes a reader long which looks through all names for each.
std::string many_names(int n) {
  std::string text = "{";
  for (int i = 0; i < n; ++i) text += (i == 0 ? "\"" : ",\"") + std::to_string(i) + "\":0";
  return text + "}";
}

template <class Line>
void read_line(std::string_view text) {
  Line line;
  if (parse_line(text, line)) require(format_line(line) == std::string(text) + "\n", "a line has one spelling");
  std::string again;
  for (const Line& part : parse_unfinished_log<Line>(text)) again += format_line(part);
  require(text.starts_with(again), "the sound lines of a log are its beginning");
  accepts([&] {
    std::string all;
    for (const Line& part : parse_log<Line>(text, "log")) all += format_line(part);
    require(all == text, "a log has one spelling");
  });
}

}  // namespace

// ---- JSON in general

void run_json(std::string_view input) {
  Json json;
  try {
    json = parse_json(input);
  } catch (const std::exception&) {  // of JSON, as json_text.h says: each reader makes it an error of its own
    return;
  }
  require(depth_of(json) <= 65, "JSON is no deeper than 64 levels");
  require(parse_json(json.dump()) == json, "JSON that is read is written");
}

std::vector<std::string> json_seeds() {
  return {R"({"format": "isobit-data-1", "files": [{"name": "a", "size": 12, "sha256": "00"}]})",
          R"({"hardware": {"cores": 8, "memory": "1 kB"}, "run": {"threads": "1"}, "x": [1.5e-7, -0.0, true, null]})",
          R"("\u00e9\ud83d\ude00\n")",
          std::string(64, '[') + std::string(64, ']'),
          std::string(100'000, '['),
          many_names(12'000)};
}

// ---- Logs

void run_log_lines(std::string_view input) {
  if (input.empty()) return;
  const std::string_view text = input.substr(1);
  switch (input[0] & 7) {
    case 0: return read_line<StepLine>(text);
    case 1: return read_line<MetricsLine>(text);
    case 2: return read_line<EvaluationLine>(text);
    case 3: return read_line<OutsideLine>(text);
    case 4: return read_line<TimingLine>(text);
    case 6: return read_line<PredictionsLine>(text);
    default: return read_line<CheckpointLine>(text);
  }
}

std::vector<std::string> log_lines_seeds() {
  CheckpointLine checkpoint{{4, "checkpoints/step-4.pt", 3, kSha, kSha}, {{kStepsLog, {77, kSha}}}};
  const std::vector<std::string> lines = {
      "0" + format_line(StepLine{1, 1, 0x3f000000, kDigits, kDigits, kDigits}),
      "1" + format_line(MetricsLine{8, 2, "test", {{"accuracy", 0.5}, {"loss", -1e-300}, {"nan", 0.0 / 0.0}}}),
      "2" + format_line(EvaluationLine{4, 1, 10, kDigits}),
      "3" + format_line(OutsideLine{1, 2, "__main__:7", "disabled"}),
      "4" + format_line(TimingLine{8, "epoch", 11.25, 60000}),
      "5" + format_line(checkpoint),
      "6" + format_line(PredictionsLine{8, 2, "test", {0, 9, 99999, 3}, kSha})};
  std::vector<std::string> seeds;
  seeds.emplace_back(R"(4{"step":1e300,"phase":"epoch","seconds":1.0,"samples":true})");
  for (const std::string& line : lines) {
    seeds.push_back(line);
    seeds.push_back(line.substr(0, line.size() - 1));
    seeds.push_back(line + line.substr(1));
  }
  return seeds;
}

// ---- state.json and manifest.json

void run_state(std::string_view input) {
  const std::string text(input);
  accepts([&] { require(format_state(parse_state(text, kStateFile)) == text, "state.json has one spelling"); });
}

std::vector<std::string> state_seeds() {
  StateFile state{"20261121-045835-small-3f9a2c01",
                  "small",
                  "isobit-0.1",
                  "2026-11-21T04:58:35.123456Z",
                  "running",
                  3,
                  "",
                  "",
                  "",
                  {{kExperimentFile, {12, kSha}}, {kDataFile, {3, kSha}}}};
  std::vector<std::string> seeds = {format_state(state)};
  state.state = "finished";
  state.weights = "isobit-0.1:" + kDigits;
  state.weights_sha256 = kSha;
  seeds.push_back(format_state(state));
  state.state = "failed";
  state.reason = "disk \"full\" \xc3\xa9\n";
  seeds.push_back(format_state(state));
  return seeds;
}

// As it is, and with the digest that its other bytes have: so that more than the digest is looked at.
void run_manifest(std::string_view input) {
  const auto read = [](const std::string& text) {
    accepts([&] { require(format_manifest(parse_manifest(text, kManifest)) == text, "a manifest has one spelling"); });
  };
  std::string text(input);
  read(text);
  constexpr std::string_view kLine = "  \"digest\": \"";
  const auto digest = text.rfind(kLine);
  if (digest == std::string::npos) return;
  text = text.substr(0, digest);
  read(text + std::string(kLine) + sha256(text) + "\"\n}\n");
}

std::vector<std::string> manifest_seeds() {
  const Manifest manifest{"20261121-045835-small-3f9a2c01",
                          {{kStateFile, {12, kSha}}, {"checkpoints/step-3.pt", {std::uint64_t{1} << 62, kSha}}}};
  return {format_manifest(manifest), format_manifest({"", {}})};
}

// ---- Locks

void run_lock(std::string_view input) {
  const std::string text(input);
  if (const auto owner = parse_owner(text)) {
    const std::string written = format_owner(*owner);
    const auto again = parse_owner(written);
    require(again && format_owner(*again) == written, "a lock that is read is written");
    require(owner->generation <= std::uint64_t{1} << 62, "generations stay far from their end");
    static_cast<void>(judge(*owner, this_process(), scratch()));
    static_cast<void>(is_later_restart(this_process(), *owner));
  }
  std::filesystem::create_directories(scratch() / ".locks");
  put(scratch() / ".locks" / "run", text);
  static_cast<void>(lock_holder(scratch(), "run"));
}

std::vector<std::string> lock_seeds() {
  LockOwner owner = this_process();
  owner.host = "node12";
  owner.machine = owner.boot = kDigits;
  owner.pid = 4711;
  owner.started = "1234";
  owner.token = "0123456789abcdef";
  owner.generation = 3;
  std::vector<std::string> seeds = {format_owner(owner)};
  for (const char* pid : {"1e300", "4294967297", "-1"}) {
    std::string other = seeds[0];
    seeds.push_back(other.replace(other.find("4711"), 4, pid));
  }
  owner.generation = ~std::uint64_t{0};
  seeds.push_back(format_owner(owner));
  owner.generation = 3;
  owner.boot = this_process().boot;
  owner.processes = this_process().processes;
  owner.cluster = "c";
  owner.job = "17_4";
  owner.restart = 2;
  seeds.push_back(format_owner(owner));
  return seeds;
}

// ---- Texts of strangers: patches, what is printed, what is looked through for secrets

void run_patch(std::string_view input) {
  std::int64_t line = 0;
  for (const PatchedFile& file : summarize_patch(input)) {
    require(file.first_line > line && file.added >= 0 && file.removed >= 0, "files of a patch are in its order");
    line = file.first_line;
  }
}

std::vector<std::string> patch_seeds() {
  return {
      "diff --git a/train.py b/train.py\nindex 1..2 100644\n--- a/train.py\n+++ b/train.py\n@@ -1,2 +1,2 @@\n-a\n+b\n "
      "c\n",
      "diff --git \"a/b/\\303\\274.env\" \"b/b/\\303\\274.env\"\nnew file\nGIT binary patch\nliteral 3\nKcmZ\n",
      "diff --git a/x b/y z\nsimilarity index 100%\nrename from x\nrename to y z\n"};
}

void run_printable(std::string_view input) {
  const std::string text = printable(input), lines = printable_lines(input);
  require(text.find_first_of("\n\r\t\x1b\x7f") == std::string::npos, "one line, nothing that a terminal obeys");
  require(lines.find_first_of("\r\x1b\x7f") == std::string::npos, "nothing that a terminal obeys");
  require(printable(text) == text, "what is printable stays");
  require(printable_lines(lines) == lines, "lines that are printable stay");
  static_cast<void>(Json(text + lines).dump());  // throws for what is no UTF-8
}

std::vector<std::string> printable_seeds() {
  return {"train.py", "\x1b[2K\ridentical\n\ttab", "\xc3\xa9 \xe2\x80\xae \xf0\x9f\x98\x80 \xef\xbf\xbd",
          "\xed\xa0\x80\xc0\xaf\xff"};
}

void run_secrets(std::string_view input) {
  static const SecretScan scan({"allowed"}, {{"HF_TOKEN", "secret-value-9"}, {"PATH", "/bin"}}, "/home/me");
  const std::string text(input);
  const auto found = scan.find("file", text);
  const std::string clean = scan.redacted(text);
  require(!found.empty() || clean == text, "a text without findings stays");
  require(std::count(clean.begin(), clean.end(), '\n') == std::count(text.begin(), text.end(), '\n'),
          "a text keeps its lines");
  static_cast<void>(scan.without_home(text));
  static_cast<void>(scan.is_secret_file(text));
  static_cast<void>(scan.is_key_file(text));
}

std::vector<std::string> secrets_seeds() {
  std::string key = "-----BEGIN RSA PRIVATE KEY-----\n";
  for (int i = 0; i < 6; ++i) key += "MIIEpAIBAAKCAQEA7bq0" + std::string(40, static_cast<char>('a' + i)) + "9\n";
  return {"password = \"hunter2hunter2\"\nhttps://me:pass@host/\n+  'api_key': 'abcdefgh1234'\n",
          key + "-----END RSA PRIVATE KEY-----\nend\n", key,
          "x = 'AKIAABCDEFGHIJKLMNOP'\n--token ghp_0123456789abcdefghij0123456789abcdefghij\nsecret-value-9 allowed\n",
          "/home/me/data /Users/you/x \"/home/someone\" secret-value-9\n"};
}

}  // namespace isobit::fuzz
