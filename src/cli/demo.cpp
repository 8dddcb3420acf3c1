// isobit demo: a first run that anyone can compare: data made here, LeNet-5 for one epoch, verified with other
// settings.
#include <fmt/format.h>

#include <filesystem>
#include <memory>
#include <string>

#include "archive/files.h"
#include "archive/out_option.h"
#include "archive/user_error.h"
#include "cli/command.h"
#include "cli/execution_flags.h"
#include "jobs/run.h"
#include "kernels/isa_beside.h"
#include "kernels/threads.h"
#include "proof/verify.h"
#include "train/demo_images.h"

namespace isobit::cli {
namespace {

namespace fs = std::filesystem;

struct DemoOptions {
  std::string data, out = "isobit-demo";
  train::ExecutionOptions execution;
};

// What everyone gets. README.md states them, tests/cli/demo.transcript compares.
constexpr const char* kOfMadeImages = "isobit-0.1:aef1bdde918e42bf2e2262ed1bf2d890";
constexpr const char* kOfFashionMnist = "isobit-0.1:3f8c9fcecbfd4f4d79bc5fa424160db8";

// examples/fashion-lenet5.toml, over the data in `path`.
std::string experiment_over(const std::string& path, bool made) {
  if (path.find_first_of("\"\\\n") != std::string::npos) {
    throw archive::UserError(path, "the path of the data has a quote, backslash or line break", "name another folder");
  }
  const char* files = made ? "train_images = \"train-images-idx3-ubyte\"\ntrain_labels = \"train-labels-idx1-ubyte\"\n"
                             "test_images = \"t10k-images-idx3-ubyte\"\ntest_labels = \"t10k-labels-idx1-ubyte\"\n"
                           : "";
  return fmt::format(
      "name = \"demo\"\nseed = 1\nepochs = 1\nbatch = 64\n\n[data]\nformat = \"idx\"\npath = \"{}\"\n{}\n"
      "[model]\nname = \"lenet5\"\n\n[optimizer]\nname = \"sgd\"\nlr = 0.05\nmomentum = 0.9\n",
      path, files);
}

// Another thread count than the run's, and another instruction set where there is one of its speed.
void use_other_settings(train::ExecutionOptions& execution) {
  execution.isa = kernels::name(kernels::isa_beside(kernels::active_isa()));
  execution.threads = kernels::thread_count() > 1 ? 1 : 2;
}

// Said before anything is written.
void expect_fashion_mnist(const fs::path& folder) {
  for (const char* name : {"train-images-idx3-ubyte.gz", "train-labels-idx1-ubyte.gz", "t10k-images-idx3-ubyte.gz",
                           "t10k-labels-idx1-ubyte.gz"}) {
    if (archive::is_there(folder / name)) continue;
    throw archive::UserError("--data", fmt::format("{} has no {}", folder.string(), name),
                             "name the folder of Fashion-MNIST's four files (Debian: apt install "
                             "dataset-fashion-mnist), or leave it out: isobit demo makes images of its own");
  }
}

int demo(const DemoOptions& options) {
  const fs::path out = fs::absolute(options.out);
  const bool made = options.data.empty();
  const fs::path data = made ? out / "data" : fs::absolute(options.data);
  if (!made) expect_fashion_mnist(data);
  archive::writing_out([&] { archive::make_folders(out); });
  if (made) {
    fmt::print(stderr, "making 14,000 images in {}\n", data.string());
    train::write_demo_images(data);
  }
  const fs::path experiment = out / "experiment.toml";
  archive::write_file(experiment, experiment_over(data.string(), made));

  jobs::RunOptions training;
  training.file = experiment.string();
  training.runs = (out / "runs").string();
  training.execution = options.execution;
  const jobs::RunOutcome outcome = run(training);
  if (outcome.code != 0) return outcome.code;

  proof::VerifyOptions again;
  again.run = outcome.folder.string();
  again.execution = options.execution;
  use_other_settings(again.execution);
  fmt::print(stderr, "the same run again with {} thread{} and {}\n", again.execution.threads,
             again.execution.threads == 1 ? "" : "s", again.execution.isa);
  if (const int code = verify(again); code != 0) return code;

  const char* promised = made ? kOfMadeImages : kOfFashionMnist;
  if (outcome.weights == promised) {
    fmt::print("these are the weights that everyone gets{}\n", made ? "" : " from Fashion-MNIST");
    return 0;
  }
  fmt::print("these are not the weights {} that {} should give\n", promised,
             made ? "this demonstration" : "Fashion-MNIST");
  return 1;
}

Action declare_demo(OptionSet& app) {
  auto options = std::make_shared<DemoOptions>();
  app.add("--data", options->data, "Folder of Fashion-MNIST's four files, instead of images made here").type("DIR");
  app.add("--out", options->out, "Folder for data, experiment and record").type("DIR").show_default();
  declare_execution(app, options->execution);
  return [options] { return demo(*options); };
}

const CommandRegistration demo_command(
    {.name = "demo",
     .summary = "A first run that anyone can compare: half a minute, no data needed",
     .example = "isobit demo\n  isobit demo --data /usr/share/datasets/fashion-mnist",
     .group = Group::train,
     .rank = 5,
     .declare = declare_demo});

}  // namespace
}  // namespace isobit::cli
