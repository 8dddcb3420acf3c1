// Experiment files, with overrides behind zero bytes. An experiment that is read can be written, and reads back the
// same.
#include "fuzz/target.h"
#include "fuzz/targets.h"
#include "train/experiment.h"
#include "train/experiment_schema.h"
#include "samples/idx_reader.h"
#include "train/schedule.h"

namespace isobit::fuzz {
namespace {

std::string example(const std::string& model, const std::string& optimizer) {
  train::Experiment experiment;
  experiment.name = "small";
  experiment.model.name = model;
  experiment.optimizer.name = optimizer;
  if (model == "unet") experiment.data.target = "mask";
  if (model == "torchscript") experiment.model.torchscript = "net \"1\"\\.pt";
  if (optimizer == "sgd") experiment.schedule.name = "step";
  return train::to_toml(experiment);
}

std::string dots(int n) {
  std::string name = "a";
  for (int i = 0; i < n; ++i) name += ".a";
  return name;
}

// The run that it describes has steps that can be counted.
void plan(const train::Experiment& experiment) {
  const train::Timetable timetable(experiment, 60'000);
  require(timetable.steps() >= 1 && timetable.epochs() >= 1, "a run has a step");
  for (const std::int64_t step : {std::int64_t{1}, timetable.steps() / 2 + 1, timetable.steps()}) {
    const train::StepPlace place = timetable.place(step);
    require(place.count >= 1 && place.first >= 0 && place.first + place.count <= 60'000, "a step has samples");
    static_cast<void>(timetable.learning_rate(step));
    static_cast<void>(timetable.evaluate_after(step) || timetable.checkpoint_after(step) ||
                      timetable.fingerprint_after(step));
  }
}

}  // namespace

void run_experiment(std::string_view input) {
  std::vector<std::string> parts(1);
  for (const char c : input) {
    if (c == '\0' && parts.size() < 5) {
      parts.emplace_back();
    } else {
      parts.back() += c;
    }
  }
  const std::vector<std::string> overrides(parts.begin() + 1, parts.end());
  accepts([&] {
    train::Experiment experiment = train::parse_experiment(parts[0], "experiment.toml", overrides);
    for (const train::Key& key : train::experiment_keys())
      require(key.valid(experiment), std::string(key.name) + " is in range");
    const std::string written = train::to_toml(experiment);
    require(accepts([&] {
              require(train::to_toml(train::parse_experiment(written, "written")) == written, "one experiment");
            }),
            "an experiment that is written is read");
    plan(experiment);
    const train::DataSettings& data = experiment.data;
    if (data.path != train::DataSettings().path)
      accepts([&] { static_cast<void>(samples::read_idx_labels(data.path + "/" + data.test_labels, 10)); });
  });
  put(scratch() / "experiment.toml", parts[0]);
  accepts([&] { static_cast<void>(train::load_experiment((scratch() / "experiment.toml").string(), overrides)); });
}

std::vector<std::string> experiment_seeds() {
  using namespace std::string_literals;
  std::vector<std::string> seeds = {
      "name = \"a\"\n# comment\n[optimizer]\nlr = 0.05\n\0optimizer.momentum=0.9\0model.name=lenet5"s,
      "seed = 0x10\nepochs = 1_000\n[model]\nhidden = [\n  1, 2,\n]\n[data]\npath = '''x'''\nmean = -1.5e-3\n",
      "optimizer = {name = \"adam\", betas = [0.9, 0.999]}\nevaluate.every = 0\n",
      // Names and lists that go deeper than the stack, and a file's name that no file can have.
      dots(100'000) + " = 1\n", "[" + dots(100'000) + "]\n", "steps = " + std::string(10'000, '[') + "\n",
      "[model]\nname = \"torchscript\"\ntorchscript = \"" + std::string(5000, 'a') + "\"\n",
      "[data]\npath = \"" + std::string(5000, 'a') + "\"\n"};
  for (const char* model : {"mlp", "lenet5", "resnet18", "unet", "cnn_lstm", "transformer", "vit_tiny", "torchscript"})
    seeds.push_back(example(model, seeds.size() % 2 == 0 ? "adamw" : "sgd"));
  return seeds;
}

}  // namespace isobit::fuzz
