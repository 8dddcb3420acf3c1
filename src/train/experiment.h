// An experiment: everything that decides a run's bits, and what is recorded of it.
//
// The keys, their units, defaults and ranges stand in one table (experiment_schema.h), from which reading,
// checking, writing and docs/experiment.md all follow. Values here are checked and resolved: what
// load_experiment returns can be run. Plain values; no state.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace isobit::train {

struct ArithmeticSettings {
  std::string kind = "isobit";
  std::string products = "ordered";  // the tier (contract/product_tier.h)

  // PyTorch as it comes (train/arithmetic.h).
  [[nodiscard]] bool is_stock() const { return kind == "stock"; }
};

// -1: the experiment's one seed.
struct SeedSettings {
  std::int64_t init = -1, order = -1, augment = -1, dropout = -1;
};

struct DataSettings {
  std::string format = "idx";
  std::string path = "/usr/share/datasets/fashion-mnist";
  std::string train_images = "train-images-idx3-ubyte.gz", train_labels = "train-labels-idx1-ubyte.gz";
  std::string test_images = "t10k-images-idx3-ubyte.gz", test_labels = "t10k-labels-idx1-ubyte.gz";
  std::int64_t train_limit = 0, test_limit = 0;
  std::string train = "train", test = "test";  // every format but idx
  std::string train_table, test_table;         // images
  std::vector<std::string> inputs, targets;    // fields or columns
  std::string weight, count;                   // columns
  std::int64_t window = 64;                    // text
  std::vector<std::string> settings;           // a component's format
  double mean = 0, deviation = 1;
  std::vector<double> channel_mean, channel_deviation;
  std::string target = "class";

  // One target per pixel, not per image.
  [[nodiscard]] bool per_pixel() const { return target == "mask" || target == "silhouette"; }
};

struct SplitSection {
  std::string rule = "files", group;
  std::int64_t folds = 5, fold = 0;

  [[nodiscard]] bool of_files() const { return rule == "files"; }
};

struct ModelSettings {
  std::string name = "mlp";
  std::vector<std::int64_t> hidden = {512, 256};
  std::int64_t classes = 10;
  std::string stem = "small";
  double dropout = 0;
  std::int64_t width = 0, depth = 0, heads = 0, patch = 4;  // 0: the network's own
  std::string torchscript, sha256;
};

struct LossSettings {
  std::string name = "cross_entropy";
  double label_smoothing = 0;
};

struct OptimizerSettings {
  std::string name = "sgd";
  double lr = 0.01, momentum = 0, dampening = 0;
  bool nesterov = false;
  double weight_decay = 0;
  std::vector<double> betas = {0.9, 0.999};
  double eps = 1e-8;
  double eta = 0.001;            // lars
  bool exclude_vectors = false;  // lars
};

struct ScheduleSettings {
  std::string name = "constant";
  std::int64_t warmup = 0;
  std::int64_t step_epochs = 1;
  double gamma = 0.1;
  double floor = 0;
};

struct AugmentSettings {
  std::int64_t crop = 0;
  bool flip = false;
  std::vector<std::string> fields;  // empty: every image, and masks
};

struct EvaluateSettings {
  std::int64_t every = 1, batch = 500;
  bool predictions = false;
};

struct CheckpointSettings {
  std::int64_t every = 0, keep = 2, segments = 4;
};

struct FingerprintSettings {
  std::int64_t every = 20, gradients = 0;
};

struct Experiment {
  std::string name = "experiment";
  std::int64_t seed = 0, steps = 0, epochs = 1, batch = 64, grain = 0;
  ArithmeticSettings arithmetic;
  SeedSettings seeds;
  DataSettings data;
  SplitSection split;
  ModelSettings model;
  LossSettings loss;
  OptimizerSettings optimizer;
  ScheduleSettings schedule;
  AugmentSettings augment;
  EvaluateSettings evaluate;
  CheckpointSettings checkpoint;
  FingerprintSettings fingerprint;

  // What a seed of [seeds] comes to: init_seed() is that of the initial weights.
  [[nodiscard]] std::uint64_t init_seed() const { return seed_or(seeds.init); }
  [[nodiscard]] std::uint64_t order_seed() const { return seed_or(seeds.order); }
  [[nodiscard]] std::uint64_t augment_seed() const { return seed_or(seeds.augment); }
  [[nodiscard]] std::uint64_t dropout_seed() const { return seed_or(seeds.dropout); }

  // Samples per grain (0 resolved to the batch).
  [[nodiscard]] std::int64_t grain_size() const { return grain == 0 ? batch : grain; }

 private:
  [[nodiscard]] std::uint64_t seed_or(std::int64_t own) const {
    return static_cast<std::uint64_t>(own < 0 ? seed : own);
  }
};

// Reads a file and applies overrides ("optimizer.lr=0.1"), in order. Throws archive's UserError with file,
// line and column (or the override) and a remedy: not readable, not TOML, unknown key, wrong type, out of
// range, contradictory values, or without the keys that an experiment must say (kRequiredKeys).
[[nodiscard]] Experiment load_experiment(const std::string& path, const std::vector<std::string>& overrides = {});

// The same from text, which may leave out any key; `origin` stands in error messages for the file's name.
[[nodiscard]] Experiment parse_experiment(const std::string& text, const std::string& origin,
                                          const std::vector<std::string>& overrides = {});

// The same of a record's text. Records of versions that kept no segments do not say so: they have one.
[[nodiscard]] Experiment recorded_experiment(const std::string& text, const std::string& origin);

// Canonical TOML: every key that the experiment uses, in the table's order. parse_experiment(to_toml(e)) gives e.
[[nodiscard]] std::string to_toml(const Experiment& experiment);

}  // namespace isobit::train
