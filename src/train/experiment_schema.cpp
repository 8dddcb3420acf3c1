#include "train/experiment_schema.h"

#include "samples/data_format.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <initializer_list>

namespace isobit::train {
namespace {

using E = Experiment;

bool one_of(const std::string& value, std::initializer_list<std::string_view> choices) {
  return std::find(choices.begin(), choices.end(), value) != choices.end();
}

// A run is identified by its name in folder names and lists.
bool is_name(const std::string& text) {
  return !text.empty() && text.size() <= 64 && text[0] != '.' &&
         std::all_of(text.begin(), text.end(),
                     [](unsigned char c) { return std::isalnum(c) || c == '-' || c == '_' || c == '.'; });
}

bool is_count(std::int64_t n) { return n >= 0 && n <= 1'000'000'000'000; }
bool finite_from_zero(double x) { return std::isfinite(x) && x >= 0; }
bool fraction(double x) { return x >= 0 && x < 1; }

bool is_idx(const E& e) { return e.data.format == "idx"; }
bool has_test(const E& e) { return e.split.of_files(); }
bool takes_names(const E& e) {
  const samples::DataFormat* format = samples::find_data_format(e.data.format);
  return format != nullptr && format->takes_names;
}
bool takes_settings(const E& e) {
  const samples::DataFormat* format = samples::find_data_format(e.data.format);
  return format != nullptr && format->takes_settings;
}
// "\"idx\", \"images\" or \"npy\"", those of components among them.
std::string_view format_names() {
  static const std::string text = [] {
    const auto& all = samples::data_formats();
    std::string names;
    for (std::size_t i = 0; i < all.size(); ++i)
      names += fmt::format("{}\"{}\"", i == 0 ? "" : i + 1 == all.size() ? " or " : ", ", all[i].name);
    return names;
  }();
  return text;
}
bool has_heads(const E& e) { return one_of(e.model.name, {"transformer", "vit_tiny", "gpt2"}); }
bool has_width(const E& e) { return has_heads(e) || one_of(e.model.name, {"unet", "cnn_lstm"}); }
bool has_averages(const E& e) { return one_of(e.optimizer.name, {"adam", "adamw"}); }
bool is_sha256(const std::string& text) {
  return text.size() == 64 && text.find_first_not_of("0123456789abcdef") == std::string::npos;
}

constexpr std::string_view kCount = "0 or more";
constexpr std::string_view kPositive = "1 or more";
constexpr std::string_view kSeed = "0 or more; -1: `seed`";

std::vector<Key> make_keys() {
  std::vector<Key> keys;
#define KEY_WHERE(condition, path, unit, range, valid, meaning)               \
  keys.push_back({#path, [](E& e) -> Field { return &e.path; }, unit, range,  \
                  []([[maybe_unused]] const E& e) { return valid; }, meaning, \
                  []([[maybe_unused]] const E& e) { return condition; }})
#define KEY(path, unit, range, valid, meaning) KEY_WHERE(true, path, unit, range, valid, meaning)
  KEY(name, "", "1 to 64 letters, digits, - _ .", is_name(e.name),
      "Name of the experiment; part of the run's identifier.");
  KEY(seed, "", kCount, e.seed >= 0, "Seed of every random number of the run, but of those that `seeds` names.");
  KEY(steps, "steps", kCount, is_count(e.steps), "Steps to train; 0: as many as `epochs` gives.");
  KEY(epochs, "epochs", kPositive, e.epochs >= 1 && e.epochs <= 1'000'000, "Passes over the training set.");
  KEY(batch, "samples", kPositive, e.batch >= 1 && e.batch <= 1 << 24,
      "Samples per step; an epoch's last step may be shorter.");
  KEY(grain, "samples", "0 to `batch`", e.grain >= 0,
      "Samples computed together; 0: the batch. Part of the result, not of the machine.");

  // Keys that came later stand in a record only where they say something, so that earlier records stay as they are.
  KEY_WHERE(e.arithmetic.kind != "isobit", arithmetic.kind, "", "\"isobit\" or \"stock\"",
            one_of(e.arithmetic.kind, {"isobit", "stock"}),
            "What computes: isobit, the contract; stock, PyTorch as it comes, which promises nothing "
            "(docs/guides/stock.md).");
  KEY_WHERE(e.arithmetic.products != "ordered", arithmetic.products, "", "\"ordered\" or \"exact3\"",
            one_of(e.arithmetic.products, {"ordered", "exact3"}),
            "How products are summed: ordered, in a stated order; exact3, as integers, without one "
            "(docs/contract.md, section 17).");
  KEY_WHERE(e.seeds.init >= 0, seeds.init, "", kSeed, e.seeds.init >= -1, "Seed of the initial weights.");
  KEY_WHERE(e.seeds.order >= 0, seeds.order, "", kSeed, e.seeds.order >= -1, "Seed of the order of the samples.");
  KEY_WHERE(e.seeds.augment >= 0, seeds.augment, "", kSeed, e.seeds.augment >= -1, "Seed of crops and flips.");
  KEY_WHERE(e.seeds.dropout >= 0, seeds.dropout, "", kSeed, e.seeds.dropout >= -1,
            "Seed of dropout, and of what else a network draws while it trains.");

  KEY(data.format, "", format_names(), samples::find_data_format(e.data.format) != nullptr,
      "Format of the data (docs/data.md).");
  KEY(data.path, "", "a folder", !e.data.path.empty(),
      "Folder of the data files, absolute or from the working directory.");
  KEY_WHERE(is_idx(e), data.train_images, "", "a file name", !e.data.train_images.empty(),
            "Training images, plain or gzip (idx).");
  KEY_WHERE(is_idx(e), data.train_labels, "", "a file name", !e.data.train_labels.empty(), "Training labels (idx).");
  KEY_WHERE(is_idx(e) && has_test(e), data.test_images, "", "a file name", !e.data.test_images.empty(),
            "Test images (idx).");
  KEY_WHERE(is_idx(e) && has_test(e), data.test_labels, "", "a file name", !e.data.test_labels.empty(),
            "Test labels (idx).");
  KEY_WHERE(!is_idx(e), data.train, "", "a file or folder", !e.data.train.empty(),
            "In data.path: the training data; with a split, all data.");
  KEY_WHERE(!is_idx(e) && has_test(e), data.test, "", "a file or folder", !e.data.test.empty(),
            "In data.path: the test data.");
  KEY_WHERE(e.data.format == "images", data.train_table, "", "a file name, or nothing", true,
            "Table (CSV) of the training images, their labels, groups and weights; none: a folder per class (images).");
  KEY_WHERE(e.data.format == "images" && has_test(e), data.test_table, "", "a file name, or nothing", true,
            "Table of the test images (images).");
  KEY_WHERE(takes_names(e), data.inputs, "", "names", true,
            "What the network is given: arrays (npy) or columns (csv); none: x, or every other column.");
  KEY_WHERE(takes_names(e), data.targets, "", "names", true,
            "What it learns: arrays (npy) or columns (csv, a table of images); none: y, or target, label or y.");
  KEY_WHERE(takes_names(e), data.weight, "", "a name, or nothing", true,
            "Array or column of each sample's weight in the loss; none: 1.");
  KEY_WHERE(e.data.format == "npy", data.count, "", "a name, or nothing", true,
            "Array of how many targets of a sample count, from its first; the others are -100 (npy).");
  KEY_WHERE(e.data.format == "text", data.window, "bytes", "1 to 65536", e.data.window >= 1 && e.data.window <= 65536,
            "Bytes of a sample; the bytes one further on are what it learns (text).");
  KEY_WHERE(takes_settings(e), data.settings, "", "texts \"key=value\"", true,
            "What else a component's format is told (its guide names the keys).");
  KEY(data.train_limit, "samples", kCount, is_count(e.data.train_limit),
      "Training samples to use, counted from the first; 0: all.");
  KEY(data.test_limit, "samples", kCount, is_count(e.data.test_limit),
      "Test samples to use, counted from the first; 0: all.");
  KEY(data.mean, "", "a finite number", std::isfinite(e.data.mean),
      "Subtracted from pixel / 255, or from the input as it is if it is no image of bytes.");
  KEY(data.deviation, "", "a finite number above 0", std::isfinite(e.data.deviation) && e.data.deviation > 0,
      "The difference is divided by it.");
  KEY_WHERE(
      !e.data.channel_mean.empty(), data.channel_mean, "", "finite numbers, one per channel",
      std::all_of(e.data.channel_mean.begin(), e.data.channel_mean.end(), [](double x) { return std::isfinite(x); }),
      "The same for each channel of an image, or for each column; none: data.mean for all.");
  KEY_WHERE(!e.data.channel_deviation.empty(), data.channel_deviation, "", "finite numbers above 0, one per channel",
            std::all_of(e.data.channel_deviation.begin(), e.data.channel_deviation.end(),
                        [](double x) { return std::isfinite(x) && x > 0; }),
            "The same for each channel or column; none: data.deviation for all.");

  KEY(data.target, "", "\"class\", \"mask\", \"silhouette\", \"labels\", \"value\", \"sequence\" or \"next\"",
      one_of(e.data.target, {"class", "mask", "silhouette", "labels", "value", "sequence", "next"}),
      "What the network learns: class, the sample's class; mask, a class per pixel; silhouette, a mask made of image "
      "and "
      "label, label + 1 where a pixel is above 0, else 0 (idx); labels, yes or no for each of several; value, numbers; "
      "sequence, a class per position; next, the next token.");

  KEY_WHERE(
      !e.split.of_files(), split.rule, "", "\"files\", \"random\", \"stratified\" or \"blocks\"",
      one_of(e.split.rule, {"files", "random", "stratified", "blocks"}),
      "How training and test parts are made: files, they are files of their own; else folds of the training data.");
  KEY_WHERE(!e.split.of_files(), split.folds, "folds", "2 to 1000000", e.split.folds >= 2 && e.split.folds <= 1'000'000,
            "Parts that the data is cut into.");
  KEY_WHERE(!e.split.of_files(), split.fold, "", "0 or more, below `split.folds`", e.split.fold >= 0,
            "The part that is tested, not trained on.");
  KEY_WHERE(
      !e.split.of_files() || !e.split.group.empty(), split.group, "", "a name, or nothing", true,
      "Array or column of the samples' groups (patients, subjects), which stay in one part; with files of their own "
      "it is checked that they do.");

  KEY(model.name, "",
      "\"mlp\", \"lenet5\", \"resnet18\", \"unet\", \"cnn_lstm\", \"transformer\", \"vit_tiny\", \"gpt2\" or "
      "\"torchscript\"",
      one_of(e.model.name,
             {"mlp", "lenet5", "resnet18", "unet", "cnn_lstm", "transformer", "vit_tiny", "gpt2", "torchscript"}),
      "The network.");
  KEY_WHERE(
      e.model.name == "mlp", model.hidden, "units", "1 or more each",
      std::all_of(e.model.hidden.begin(), e.model.hidden.end(), [](std::int64_t n) { return n >= 1 && n <= 1 << 20; }),
      "Widths of the hidden layers (mlp).");
  KEY(model.classes, "classes", "1 to 100000", e.model.classes >= 1 && e.model.classes <= 100'000,
      "Outputs of the network: classes (2 or more), labels, numbers, or 256 for bytes.");
  KEY_WHERE(e.model.name == "resnet18", model.stem, "", "\"small\" or \"imagenet\"",
            one_of(e.model.stem, {"small", "imagenet"}),
            "First layers (resnet18): a 3x3 convolution, or 7x7 with stride 2 and pooling.");
  KEY_WHERE(has_width(e), model.width, "units", "0 to 65536", e.model.width >= 0 && e.model.width <= 1 << 16,
            "Channels of the first level (unet), of the state (cnn_lstm) or of a token; 0: the network's own (32, 128, "
            "transformer and gpt2 128, vit_tiny 192).");
  KEY_WHERE(has_width(e), model.depth, "layers", "0 to 64", e.model.depth >= 0 && e.model.depth <= 64,
            "Levels below the first (unet), layers or blocks; 0: the network's own (2, cnn_lstm 1, transformer and "
            "gpt2 4, vit_tiny 12).");
  KEY_WHERE(
      has_heads(e), model.heads, "heads", "0 or more", e.model.heads >= 0 && e.model.heads <= 1 << 12,
      "Heads of the attention (transformer, vit_tiny, gpt2), a divisor of the width; 0: one per 64 of the width.");
  KEY_WHERE(e.model.name == "vit_tiny", model.patch, "pixels", "1 to 1024", e.model.patch >= 1 && e.model.patch <= 1024,
            "Side of the square patches that become tokens (vit_tiny).");
  KEY_WHERE(e.model.name == "torchscript", model.torchscript, "", "a file", true,
            "The network's TorchScript file, initial weights included (torchscript).");
  KEY_WHERE(e.model.name == "torchscript", model.sha256, "", "64 hex digits, or nothing",
            e.model.sha256.empty() || is_sha256(e.model.sha256),
            "SHA-256 that the TorchScript file must have; written into the record (torchscript).");
  KEY_WHERE(e.model.name != "torchscript" && e.model.name != "gpt2", model.dropout, "", "0 or more, below 1",
            fraction(e.model.dropout),
            "Share of values dropped before the last layer, and after each hidden layer of an mlp.");

  KEY(loss.name, "", "\"cross_entropy\", \"binary_cross_entropy\", \"mse\", \"l1\", \"huber\" or \"dice\"",
      one_of(e.loss.name, {"cross_entropy", "binary_cross_entropy", "mse", "l1", "huber", "dice"}),
      "The loss, averaged over the step's targets: cross_entropy of classes (binary_cross_entropy, of logits: of "
      "labels), "
      "mse, l1 and huber of values; dice, of masks, couples the samples of a step and takes no grains.");
  KEY_WHERE(e.loss.name == "cross_entropy", loss.label_smoothing, "", "0 or more, below 1",
            fraction(e.loss.label_smoothing), "Share of the target spread evenly over all classes.");

  KEY(optimizer.name, "", "\"sgd\", \"adam\", \"adamw\" or \"lars\"",
      one_of(e.optimizer.name, {"sgd", "adam", "adamw", "lars"}),
      "The optimizer, as in torch.optim; lars, as published (docs/guides/large-batch.md).");
  KEY(optimizer.lr, "", "a finite number, 0 or more", finite_from_zero(e.optimizer.lr), "Learning rate.");
  KEY_WHERE(e.optimizer.name == "sgd" || e.optimizer.name == "lars", optimizer.momentum, "",
            "a finite number, 0 or more", finite_from_zero(e.optimizer.momentum), "Momentum (sgd, lars).");
  KEY_WHERE(e.optimizer.name == "sgd", optimizer.dampening, "", "a finite number", std::isfinite(e.optimizer.dampening),
            "Dampening of the momentum (sgd).");
  KEY_WHERE(e.optimizer.name == "sgd", optimizer.nesterov, "", "true or false", true, "Nesterov momentum (sgd).");
  KEY(optimizer.weight_decay, "", "a finite number, 0 or more", finite_from_zero(e.optimizer.weight_decay),
      "Weight decay; decoupled for adamw.");
  KEY_WHERE(has_averages(e), optimizer.betas, "", "two numbers, each 0 or more and below 1",
            e.optimizer.betas.size() == 2 && fraction(e.optimizer.betas[0]) && fraction(e.optimizer.betas[1]),
            "Decay of the two averages (adam, adamw).");
  KEY_WHERE(has_averages(e), optimizer.eps, "", "a finite number, 0 or more", finite_from_zero(e.optimizer.eps),
            "Added to the root (adam, adamw).");
  KEY_WHERE(e.optimizer.name == "lars", optimizer.eta, "", "a finite number above 0",
            std::isfinite(e.optimizer.eta) && e.optimizer.eta > 0,
            "Trust coefficient: a layer's rate is lr * eta |w| / (|g| + weight_decay |w|) (lars).");
  KEY_WHERE(e.optimizer.name == "lars", optimizer.exclude_vectors, "", "true or false", true,
            "Parameters of fewer than two dimensions (biases, scales of norms) take the rate lr and no weight decay; "
            "false, as published (lars).");

  KEY(schedule.name, "", "\"constant\", \"step\" or \"cosine\"",
      one_of(e.schedule.name, {"constant", "step", "cosine"}), "Shape of the learning rate after the warm-up.");
  KEY(schedule.warmup, "steps", kCount, is_count(e.schedule.warmup),
      "Steps in which the rate rises linearly to `optimizer.lr`.");
  KEY_WHERE(e.schedule.name == "step", schedule.step_epochs, "epochs", kPositive, e.schedule.step_epochs >= 1,
            "Epochs between reductions of the rate (step).");
  KEY_WHERE(e.schedule.name == "step", schedule.gamma, "", "a finite number above 0",
            std::isfinite(e.schedule.gamma) && e.schedule.gamma > 0, "Factor of each reduction (step).");
  KEY_WHERE(e.schedule.name == "cosine", schedule.floor, "", "a finite number, 0 or more",
            finite_from_zero(e.schedule.floor), "Rate at the end (cosine).");

  KEY(augment.crop, "pixels", "0 to 1024", e.augment.crop >= 0 && e.augment.crop <= 1024,
      "Zeros added on every side before a random crop to the original size.");
  KEY(augment.flip, "", "true or false", true, "Mirror each image left to right with probability 1/2.");
  KEY_WHERE(e.augment.crop > 0 || e.augment.flip, augment.fields, "", "names", true,
            "Fields that are cropped and mirrored, together; none: every image, and masks.");

  KEY(evaluate.every, "epochs", kCount, is_count(e.evaluate.every),
      "Epochs between evaluations on the test set; there is always one at the end. 0: only at the end.");
  KEY(evaluate.batch, "samples", kPositive, e.evaluate.batch >= 1 && e.evaluate.batch <= 1 << 24,
      "Samples evaluated together.");
  KEY_WHERE(
      e.evaluate.predictions, evaluate.predictions, "", "true or false", true,
      "Keep the class that each evaluation gave each test sample, in predictions.jsonl (data.target = \"class\").");

  KEY(checkpoint.every, "steps", kCount, is_count(e.checkpoint.every),
      "Steps between checkpoints; 0: one per epoch. There is always one at the end.");
  KEY(checkpoint.keep, "checkpoints", kCount, is_count(e.checkpoint.keep), "Newest checkpoints kept; 0: all.");
  KEY(checkpoint.segments, "parts", "1 to 4096", e.checkpoint.segments >= 1 && e.checkpoint.segments <= 4096,
      "Equal parts of the run; after each there is a checkpoint, which is kept, so that `isobit verify --workers` "
      "computes them side by side.");

  KEY(fingerprint.every, "steps", kCount, is_count(e.fingerprint.every),
      "Steps between fingerprints of the weights; 0: only at the end.");
  KEY_WHERE(e.fingerprint.gradients > 0, fingerprint.gradients, "steps", kCount, is_count(e.fingerprint.gradients),
            "Steps between fingerprints of the gradients that the optimizer is given; 0: none.");
#undef KEY
#undef KEY_WHERE
  return keys;
}

std::string number(double x) {
  std::string text = fmt::format("{}", x);  // shortest that reads back to the same bits
  if (text.find_first_not_of("-0123456789") == std::string::npos) text += ".0";
  return text;
}

std::string quoted(const std::string& text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) {
      out += fmt::format("\\u{:04x}", static_cast<unsigned char>(c));
    } else {
      out += c;
    }
  }
  return out + "\"";
}

template <class Value, class Format>
std::string list(const std::vector<Value>& values, Format format) {
  std::string out = "[";
  for (std::size_t i = 0; i < values.size(); ++i) out += (i ? ", " : "") + format(values[i]);
  return out + "]";
}

template <class... Functions>
struct Overloaded : Functions... {
  using Functions::operator()...;
};
template <class... Functions>
Overloaded(Functions...) -> Overloaded<Functions...>;  // clang 16 does not deduce it

}  // namespace

const std::vector<Key>& experiment_keys() {
  static const std::vector<Key> keys = make_keys();
  return keys;
}

std::string_view type_name(const Field& field) {
  constexpr std::string_view names[] = {"an integer",         "a number",          "true or false",    "a string",
                                        "a list of integers", "a list of numbers", "a list of strings"};
  return names[field.index()];
}

std::string toml_value(const Field& field) {
  return std::visit(Overloaded{
                        [](const std::int64_t* v) { return fmt::format("{}", *v); },
                        [](const double* v) { return number(*v); },
                        [](const bool* v) { return std::string(*v ? "true" : "false"); },
                        [](const std::string* v) { return quoted(*v); },
                        [](const std::vector<std::int64_t>* v) {
                          return list(*v, [](std::int64_t x) { return fmt::format("{}", x); });
                        },
                        [](const std::vector<double>* v) { return list(*v, number); },
                        [](const std::vector<std::string>* v) { return list(*v, quoted); },
                    },
                    field);
}

std::string keys_as_markdown() {
  Experiment defaults;
  std::string out = "| Key | Type | Unit | Default | Range | Meaning |\n|---|---|---|---|---|---|\n";
  for (const Key& key : experiment_keys()) {
    const Field field = key.field(defaults);
    const bool required =
        std::find(std::begin(kRequiredKeys), std::end(kRequiredKeys), key.name) != std::end(kRequiredKeys);
    out += fmt::format("| `{}` | {} | {} | {} | {} | {} |\n", key.name, type_name(field),
                       key.unit.empty() ? "-" : key.unit,
                       required ? "to be given" : fmt::format("`{}`", toml_value(field)), key.range, key.meaning);
  }
  return out;
}

}  // namespace isobit::train
