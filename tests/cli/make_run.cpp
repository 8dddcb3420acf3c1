// Makes a small record without training, for transcripts: make-run FOLDER NAME finished|interrupted|failed|running
// [FILE...] Prints the run's id. With files it is a Python program's record that has them as inputs (sources.json,
// dirty.patch). "running" leaves a lock of this process, which a list takes for alive only while it lives.
#include <cstdio>
#include <string>

#include "archive/log_lines.h"
#include "archive/run_folder.h"
#include "archive/small_run.h"

namespace {

using namespace isobit::archive;

void make_experiment(const char* runs, const char* name, const std::string& state) {
  RunWriter writer = RunWriter::create(runs, small_inputs(name));
  write_steps(writer, 1, state == "finished" ? 8 : 5);
  if (state == "finished") writer.finish(kWeights, std::string(64, 'e'));
  if (state == "failed") writer.fail("the loss of step 6 is not finite");
  std::printf("%s\n", writer.id().c_str());
  std::fflush(stdout);
  if (state == "running") std::getchar();
}

void make_program(const char* runs, const char* name, const std::vector<fs::path>& files) {
  std::map<std::string, std::string> inputs = {
      {kExperimentFile, "[script]\nfile = \"train.py\"\n"},
      {kEnvironmentFile, "{}\n"},
      {kDataFile, "{\"files\": []}\n"},
      {"sources.json", "{\"format\": \"isobit-sources-1\", \"files\": {\"train.py\": \"pass\"}}\n"}};
  for (const fs::path& file : files) inputs[file.filename()] = read_file(file);
  RunFolder run = RunFolder::create(runs, name, inputs, kScriptRun);
  for (std::int64_t step = 1; step <= 8; ++step) run.append_step(step, format_line(small_step(step)));
  run.finish(kWeights, std::string(64, 'e'));
  std::printf("%s\n", run.id().c_str());
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 4) return 2;
  if (argc == 4) {
    make_experiment(argv[1], argv[2], argv[3]);
  } else {
    make_program(argv[1], argv[2], {argv + 4, argv + argc});
  }
  return 0;
}
