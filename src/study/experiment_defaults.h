// What every key of an experiment is where nobody gives it, as TOML: a record leaves out keys that its network, its
// optimizer or its data do not use, and those that came later and say nothing. A test (train/experiment_test.cpp) holds
// it against the table of keys, which this room may not include.
#pragma once

#include <string_view>

namespace isobit::study {

inline constexpr std::string_view kExperimentDefaults = R"(
name = "experiment"
seed = 0
steps = 0
epochs = 1
batch = 64
grain = 0
arithmetic.kind = "isobit"
arithmetic.products = "ordered"
seeds.init = -1
seeds.order = -1
seeds.augment = -1
seeds.dropout = -1
data.format = "idx"
data.path = "/usr/share/datasets/fashion-mnist"
data.train_images = "train-images-idx3-ubyte.gz"
data.train_labels = "train-labels-idx1-ubyte.gz"
data.test_images = "t10k-images-idx3-ubyte.gz"
data.test_labels = "t10k-labels-idx1-ubyte.gz"
data.train = "train"
data.test = "test"
data.train_table = ""
data.test_table = ""
data.inputs = []
data.targets = []
data.weight = ""
data.count = ""
data.window = 64
data.settings = []
data.train_limit = 0
data.test_limit = 0
data.mean = 0.0
data.deviation = 1.0
data.channel_mean = []
data.channel_deviation = []
data.target = "class"
split.rule = "files"
split.folds = 5
split.fold = 0
split.group = ""
model.name = "mlp"
model.hidden = [512, 256]
model.classes = 10
model.stem = "small"
model.width = 0
model.depth = 0
model.heads = 0
model.patch = 4
model.torchscript = ""
model.sha256 = ""
model.dropout = 0.0
loss.name = "cross_entropy"
loss.label_smoothing = 0.0
optimizer.name = "sgd"
optimizer.lr = 0.01
optimizer.momentum = 0.0
optimizer.dampening = 0.0
optimizer.nesterov = false
optimizer.weight_decay = 0.0
optimizer.betas = [0.9, 0.999]
optimizer.eps = 1e-08
optimizer.eta = 0.001
optimizer.exclude_vectors = false
schedule.name = "constant"
schedule.warmup = 0
schedule.step_epochs = 1
schedule.gamma = 0.1
schedule.floor = 0.0
augment.crop = 0
augment.flip = false
augment.fields = []
evaluate.every = 1
evaluate.batch = 500
evaluate.predictions = false
checkpoint.every = 0
checkpoint.keep = 2
checkpoint.segments = 4
fingerprint.every = 20
fingerprint.gradients = 0
)";

}  // namespace isobit::study
