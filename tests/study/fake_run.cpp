// Stands in for `isobit run` where a test needs many runs and no training: takes its words, and leaves a small record
// whose metrics follow from seed, optimizer, threads and ATEN_CPU_CAPABILITY.
//
// $FAKE_ACTS is a list "WORD:ACT;...": a run with that word among its overrides or options does something else. fail:
// exit 2; diverge: a failed record, exit 1; nan: its loss is no number; wait: stays until SIGINT, then exit 130; kill:
// ends by SIGKILL. --script FILE: a Python program's record, of that file, with $FAKE_ARGUMENTS (a JSON list).
// $FAKE_LOG gets a line for each run that is begun. $FAKE_CONTRACT: what computes, "stock-2.15.0".
#include <signal.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iostream>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>

#include "archive/log_lines.h"
#include "archive/run_folder.h"
#include "archive/small_run.h"

namespace {

using namespace isobit::archive;

volatile sig_atomic_t stopped = 0;

struct Words {
  std::string file, runs, once, ending, script;
  std::map<std::string, std::string> settings;  // options, too: "--threads"
  bool dry_run = false;
};

Words read(int argc, char** argv) {
  Words words;
  for (int i = 2; i < argc; ++i) {
    const std::string word = argv[i];
    if (word == "--dry-run") words.dry_run = true;
    if (word == "--dry-run" || word == "--json") continue;
    if (!word.starts_with("--")) {
      words.file = word;
      continue;
    }
    const std::string value = argv[++i];
    if (word == "--runs") {
      words.runs = value;
    } else if (word == "--ending") {
      words.ending = value;
    } else if (word == "--script") {
      words.script = value;
    } else if (word == "--once") {
      words.once = value;
    } else if (word == "--set") {
      words.settings[value.substr(0, value.find('='))] = value.substr(value.find('=') + 1);
    } else {
      words.settings[word] = value;
    }
  }
  return words;
}

std::string act_of(const Words& words) {
  std::istringstream acts(std::getenv("FAKE_ACTS") != nullptr ? std::getenv("FAKE_ACTS") : "");
  for (std::string act; std::getline(acts, act, ';');) {
    const std::string word = act.substr(0, act.rfind(':'));
    for (const auto& [key, value] : words.settings) {
      if (key + "=" + value == word) return act.substr(act.rfind(':') + 1);
    }
  }
  return "";
}

double accuracy(const Words& words) {
  const auto setting = [&](const char* key) {
    const auto found = words.settings.find(key);
    return found == words.settings.end() ? std::string() : found->second;
  };
  const double seed = std::atof(setting("seed").c_str()), fold = std::atof(setting("split.fold").c_str());
  double value = 0.8 + 0.01 * static_cast<double>(static_cast<int>(seed * 5 + fold * 3) % 7);
  if (setting("optimizer.name") == "\"adam\"") value += 0.05;
  if (setting("arithmetic.kind") == "\"stock\"") value += 0.001 * std::atof(setting("--threads").c_str());
  if (std::getenv("FAKE_SHIFT") != nullptr) value += std::atof(std::getenv("FAKE_SHIFT"));
  return value;
}

// The file's keys and the settings, of which a later one counts.
std::string experiment_of(const Words& words) {
  std::string text, rest;
  for (const auto& [key, setting] : words.settings) {
    // As isobit run leaves out what says nothing, or is not used.
    if (key == "arithmetic.kind" && setting == "\"isobit\"") continue;
    if (key == "optimizer.momentum" && words.settings.contains("optimizer.name")) continue;
    if (!key.starts_with("--")) text += key + " = " + setting + "\n";
  }
  std::ifstream file(words.file);
  for (std::string line; std::getline(file, line);) {
    if (!line.starts_with('#') && !words.settings.contains(line.substr(0, line.find(" = ")))) rest += line + "\n";
  }
  return (rest.find("name = ") == std::string::npos ? "name = \"fake\"\n" : "") + text + rest;
}

void make_script(const Words& words) {
  const nlohmann::json sources{{"format", "isobit-sources-1"}, {"files", {{"train.py", read_file(words.script)}}}};
  RunFolder run = RunFolder::create(
      words.runs, "fake",
      {{"experiment.toml",
        std::string("# A Python program under isobit.record.\n[script]\nfile = \"train.py\"\narguments = ") +
            std::getenv("FAKE_ARGUMENTS") + "\n"},
       {"environment.json", "{}\n"},
       {"data.json", "{}\n"},
       {"sources.json", sources.dump() + "\n"}},
      kScriptRun, words.ending);
  const double value = accuracy(words);
  run.append_step(1, format_line(small_step(1)));
  run.append(kMetricsLog, format_line(MetricsLine{1, 1, "test", {{"accuracy", value}}}));
  char weights[64];
  std::snprintf(weights, sizeof weights, "isobit-0.1:%032llx", static_cast<unsigned long long>(value * 1e15));
  run.finish(weights, std::string(64, 'e'));
}

int make(const Words& words) {
  const std::string act = act_of(words);
  if (std::getenv("FAKE_LOG") != nullptr) {
    const char* capability = std::getenv("ATEN_CPU_CAPABILITY");
    const char* mkl = std::getenv("MKL_ENABLE_INSTRUCTIONS");
    std::ofstream(std::getenv("FAKE_LOG"), std::ios::app)
        << words.once << " " << act << " " << (capability != nullptr ? capability : "-") << " "
        << (mkl != nullptr ? mkl : "-") << std::endl;
  }
  if (act == "fail") {
    std::cerr << "epoch 1\nisobit: somewhere: broken (mend it)\n";
    return 2;
  }
  const double value = accuracy(words);
  RunInputs inputs = small_inputs("fake");
  inputs.experiment = experiment_of(words);
  const std::string lines = "\n" + inputs.experiment;
  const std::size_t at = lines.find("\nname = \"") + 9;
  inputs.name = lines.substr(at, lines.find('"', at) - at);
  if (std::getenv("FAKE_CONTRACT") != nullptr) inputs.contract = std::getenv("FAKE_CONTRACT");
  if (!words.once.empty()) inputs.ending = ending_of(words.once);
  if (!words.ending.empty()) inputs.ending = words.ending;
  // One that was interrupted is resumed, as isobit run --once does.
  const auto old = find_ending(words.runs, words.once.empty() ? "none" : inputs.ending);
  RunWriter writer = old ? RunWriter::resume(*old, "{}") : RunWriter::create(words.runs, inputs);
  const auto print = [&](const char* state) {
    std::cout << "{\"id\":\"" << writer.id() << "\",\"state\":\"" << state << "\"}\n";
  };
  if (act == "wait") {
    while (stopped == 0) ::usleep(10'000);
    print("interrupted");
    return 130;
  }
  if (act == "kill") ::kill(::getpid(), SIGKILL);
  if (act == "diverge") {
    writer.fail("the loss of step 1 is not finite");
    print("failed");
    std::cerr << "isobit: " << writer.id() << ": the loss of step 1 is not finite (lower optimizer.lr)\n";
    return 1;
  }
  for (std::int64_t step = 1; step <= 4; ++step) {
    StepLine line = small_step(step);
    if (std::getenv("FAKE_SHIFT") != nullptr && step >= 3) line.loss_bits += 1;
    writer.append_step(line);
  }
  const double loss = act == "nan" ? std::numeric_limits<double>::quiet_NaN() : 1 - value;
  writer.append_metrics({4, 1, "test", {{"accuracy", value}, {"loss", loss}}});
  writer.write_checkpoint(SmallTensors(4).views(), "{}", 2, std::string(64, 'a'));
  char weights[64];
  std::snprintf(weights, sizeof weights, "%s:%032llx", inputs.contract.c_str(),
                static_cast<unsigned long long>(value * 1e15));
  writer.finish(weights, std::string(64, 'e'));
  print("finished");
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  signal(SIGINT, [](int) { stopped = 1; });
  if (argc < 3 || std::string(argv[1]) != "run") return 2;
  const Words words = read(argc, argv);
  if (!words.script.empty()) return make_script(words), 0;
  if (!words.dry_run) return make(words);
  for (const auto& [key, value] : words.settings) {
    if (key == "optimizer.nmae") {
      std::cerr << "isobit: --set " << key << "=" << value << ": unknown key '" << key
                << "' (did you mean 'optimizer.name'?)\n";
      return 2;
    }
  }
  std::cout << "name = \"fake\"\n";
  return 0;
}
