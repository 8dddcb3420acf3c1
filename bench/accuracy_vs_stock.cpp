// Test accuracy of isobit against stock PyTorch: the same networks, initial weights and batches, paired by seed.
//
//   build/release/bench/accuracy_vs_stock [--seeds 5] [--epochs 1] [EXPERIMENT.toml...]
//
// Prints each seed's pair, then the mean difference with a 95 % interval (Student's t over the seeds). An
// interval that holds 0 says that this many seeds show no difference, not that there is none.
#include <ATen/Parallel.h>
#include <fmt/format.h>

#include <cmath>
#include <cstdlib>
#include <exception>
#include <memory>
#include <string>
#include <vector>

#include "aten/operator_switch.h"
#include "kernels/threads.h"
#include "train/trainer.h"

namespace {

using isobit::train::Trainer;

double accuracy_of(const isobit::train::Experiment& experiment, const isobit::train::DataSets& data, bool ours) {
  at::set_num_threads(ours ? 1 : isobit::kernels::available_cpus());
  std::unique_ptr<isobit::aten::OperatorSwitch> on;
  if (ours) on = std::make_unique<isobit::aten::OperatorSwitch>();
  Trainer trainer(experiment, data);
  const std::int64_t steps = trainer.timetable().steps();
  while (trainer.steps_done() < steps) trainer.step();
  return trainer.evaluate().score;
}

// 97.5 % points of Student's t, by degrees of freedom from 1.
double t_point(std::size_t degrees) {
  constexpr double points[] = {12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228};
  return degrees <= 10 ? points[degrees - 1] : 1.96 + 2.4 / static_cast<double>(degrees);
}

void compare(const std::string& path, int seeds, const std::string& epochs) {
  std::vector<double> differences;
  for (int seed = 1; seed <= seeds; ++seed) {
    const auto experiment =
        isobit::train::load_experiment(path, {"seed=" + std::to_string(seed), "epochs=" + epochs, "steps=0"});
    const auto data = isobit::train::load_data(experiment);
    const double stock = accuracy_of(experiment, data, false), ours = accuracy_of(experiment, data, true);
    differences.push_back(100 * (ours - stock));
    fmt::print("{} seed {}: stock {:.2f} %, isobit {:.2f} %\n", experiment.name, seed, 100 * stock, 100 * ours);
    std::fflush(stdout);
  }
  double mean = 0, squares = 0;
  for (double d : differences) mean += d / static_cast<double>(differences.size());
  for (double d : differences) squares += (d - mean) * (d - mean);
  const auto n = static_cast<double>(differences.size());
  const double half = n > 1 ? t_point(differences.size() - 1) * std::sqrt(squares / (n - 1) / n) : NAN;
  fmt::print("{}: isobit - stock = {:+.3f} points, 95 % interval [{:+.3f}, {:+.3f}], {} seeds\n", path, mean,
             mean - half, mean + half, differences.size());
}

}  // namespace

int main(int argc, char** argv) try {
  int seeds = 5;
  std::string epochs = "1";
  std::vector<std::string> paths;
  for (int i = 1; i < argc; ++i) {
    const std::string argument = argv[i];
    if (argument == "--seeds" && i + 1 < argc)
      seeds = std::atoi(argv[++i]);
    else if (argument == "--epochs" && i + 1 < argc)
      epochs = argv[++i];
    else
      paths.push_back(argument);
  }
  if (paths.empty()) paths = {"examples/fashion-mlp.toml", "examples/fashion-lenet5.toml"};
  for (const std::string& path : paths) compare(path, seeds, epochs);
  return 0;
} catch (const std::exception& error) {
  fmt::print(stderr, "accuracy_vs_stock: {}\n", error.what());
  return 2;
}
