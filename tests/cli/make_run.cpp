// Makes a small record without training, for transcripts: make-run FOLDER NAME
// finished|interrupted|failed|running [FILE...] Prints the run's id. Files are put into the run's folder, as a Python
// program's record has some. "running" leaves a lock of this process, which a list takes for alive only while it lives.
#include <cstdio>
#include <string>

#include "archive/small_run.h"

int main(int argc, char** argv) {
  using namespace isobit::archive;
  if (argc < 4) return 2;
  RunWriter writer = RunWriter::create(argv[1], small_inputs(argv[2]));
  const std::string state = argv[3];
  write_steps(writer, 1, state == "finished" ? 8 : 5);
  for (int i = 4; i < argc; ++i) fs::copy_file(argv[i], writer.folder() / fs::path(argv[i]).filename());
  if (state == "finished") writer.finish(kWeights);
  if (state == "failed") writer.fail("the loss of step 6 is not finite");
  std::printf("%s\n", writer.id().c_str());
  std::fflush(stdout);
  if (state == "running") std::getchar();
  return 0;
}
