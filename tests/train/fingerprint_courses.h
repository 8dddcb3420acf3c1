// Experiments whose fingerprints must not depend on how they are executed: what carries them out and compares with the
// committed values (tests/golden/training.txt).
#pragma once

#include <ATen/Parallel.h>
#include <gtest/gtest.h>

#include <fstream>
#include <map>

#include "aten/operator_switch.h"
#include "kernels/isa.h"
#include "kernels/threads.h"
#include "train/recording.h"
#include "train/synthetic_data.h"
#include "train/trainer.h"

namespace isobit::train {

inline constexpr const char* kGolden = ISOBIT_SOURCE_DIR "/tests/golden/training.txt";

struct Course {
  const char* name;
  const char* experiment;  // TOML
  std::int64_t train, test, size;
};

struct Setting {
  kernels::Isa isa;
  int threads;
  GrainOrder order;
  bool restored;
};

inline std::string describe(const Setting& s) {
  return std::string(kernels::name(s.isa)) + ", " + std::to_string(s.threads) + " threads" +
         (s.order == GrainOrder::shuffled ? ", shuffled" : "") + (s.restored ? ", restored" : "");
}

// Fingerprints of weights and optimizer, every loss, and the evaluation, as one text.
inline std::string run(const Course& course, const Setting& setting) {
  const kernels::IsaScope isa(setting.isa);
  const kernels::ThreadCountScope threads(setting.threads);
  const Experiment experiment = parse_experiment(course.experiment, course.name);
  const bool per_pixel = experiment.data.per_pixel();
  const DataSets data = per_pixel ? synthetic_masks(course.train, course.test, course.size)
                                  : synthetic_data(course.train, course.test, course.size);
  const auto fresh = [&] {
    return std::make_unique<Trainer>(experiment, data, Execution{.grain_order = setting.order});
  };
  std::unique_ptr<Trainer> trainer = fresh();
  kernels::ListFingerprint losses;
  std::vector<float> values;
  while (trainer->steps_done() < experiment.steps) {
    if (setting.restored && trainer->steps_done() == experiment.steps / 2) {
      std::unique_ptr<Trainer> next = fresh();
      next->restore(trainer->state());
      trainer = std::move(next);
    }
    values.push_back(trainer->step().loss);
  }
  const Evaluation evaluation = trainer->evaluate();
  values.push_back(static_cast<float>(evaluation.loss));
  values.push_back(static_cast<float>(evaluation.score));
  const auto sums = kernels::element_sums(values.data(), 0, static_cast<std::int64_t>(values.size()));
  return "weights " + kernels::to_hex(trainer->weights_fingerprint()) + " optimizer " +
         kernels::to_hex(trainer->optimizer_fingerprint()) + " losses " + kernels::to_hex(sums);
}

inline std::map<std::string, std::string> golden_values() {
  std::map<std::string, std::string> values;
  std::ifstream file(kGolden);
  for (std::string line; std::getline(file, line);) {
    if (line.empty() || line[0] == '#') continue;
    const auto space = line.find(' ');
    values[line.substr(0, space)] = line.substr(space + 1);
  }
  return values;
}

inline void expect_golden(const std::string& name, const std::string& value) {
  auto values = golden_values();
  const std::string entry = std::string(contract::kContractVersion) + " " + value;
  if (std::getenv("ISOBIT_UPDATE_GOLDEN") != nullptr) {
    values[name] = entry;
    std::ofstream file(kGolden);
    file << "# Short training runs on synthetic data (tests/train/fingerprint_test.cpp): name, contract version, "
            "fingerprints.\n";
    for (const auto& [each, text] : values) file << each << ' ' << text << '\n';
    return;
  }
  EXPECT_EQ(entry, values[name]) << "committed value of " << name;
}

inline std::vector<Setting> every_setting() {
  std::vector<Setting> settings;
  for (const kernels::Isa isa : kernels::available_isas()) {
    for (const int threads : {1, 2, 3, 8}) {
      for (const GrainOrder order : {GrainOrder::ascending, GrainOrder::shuffled}) {
        settings.push_back({isa, threads, order, (threads + (order == GrainOrder::shuffled)) % 2 == 0});
      }
    }
  }
  return settings;
}

// Every pair of (instruction set, threads, order, restored) but those with the slow reference occurs.
inline std::vector<Setting> pairwise_settings() {
  using enum GrainOrder;
  std::vector<Setting> settings;
  const std::vector<Setting> wished = {
      {kernels::Isa::avx2, 1, ascending, false},   {kernels::Isa::avx512, 1, shuffled, true},
      {kernels::Isa::lanes16, 1, ascending, true}, {kernels::Isa::avx2, 2, shuffled, true},
      {kernels::Isa::avx512, 2, ascending, false}, {kernels::Isa::lanes16, 2, shuffled, false},
      {kernels::Isa::avx2, 3, ascending, true},    {kernels::Isa::avx512, 3, shuffled, false},
      {kernels::Isa::lanes16, 3, shuffled, true},  {kernels::Isa::avx2, 8, shuffled, false},
      {kernels::Isa::avx512, 8, ascending, true},  {kernels::Isa::lanes16, 8, ascending, false},
      {kernels::Isa::reference, 2, shuffled, true}};
  for (const Setting& setting : wished) {
    if (kernels::isa_available(setting.isa)) settings.push_back(setting);
  }
  return settings;
}

class Fingerprints : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    at::set_num_threads(1);
    on_ = new aten::OperatorSwitch;
  }
  static void TearDownTestSuite() { delete on_; }

  static void expect_one(const Course& course, const std::vector<Setting>& settings) {
    const std::string first = run(course, settings.front());
    expect_golden(course.name, first);
    for (std::size_t i = 1; i < settings.size(); ++i)
      EXPECT_EQ(run(course, settings[i]), first) << describe(settings[i]);
  }

 private:
  static inline aten::OperatorSwitch* on_ = nullptr;
};

}  // namespace isobit::train
