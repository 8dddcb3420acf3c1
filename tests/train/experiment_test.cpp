#include "train/experiment.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <sstream>

#include "archive/user_error.h"
#include "study/experiment_defaults.h"
#include "study/experiment_metrics.h"
#include "train/experiment_schema.h"
#include "train/task.h"

namespace isobit::train {
namespace {

// The error's text, or "" where there is none.
std::string error_of(const std::string& text, const std::vector<std::string>& overrides = {}) {
  try {
    (void)parse_experiment(text, "e.toml", overrides);
  } catch (const std::exception& error) {
    return error.what();
  }
  return "";
}

struct Refusal {
  const char* text;
  const char* override_;  // nullptr: none
  std::vector<const char*> says;
};

void PrintTo(const Refusal& refusal, std::ostream* out) {
  *out << testing::PrintToString(refusal.text) << (refusal.override_ == nullptr ? "" : " --set ")
       << (refusal.override_ == nullptr ? "" : refusal.override_);
}

class Refusals : public testing::TestWithParam<Refusal> {};

TEST_P(Refusals, SayWhereWhatAndWhatToDo) {
  const Refusal& refusal = GetParam();
  std::vector<std::string> overrides;
  if (refusal.override_ != nullptr) overrides.emplace_back(refusal.override_);
  const std::string error = error_of(refusal.text, overrides);
  for (const char* part : refusal.says) EXPECT_NE(error.find(part), std::string::npos) << part << " not in: " << error;
}

INSTANTIATE_TEST_SUITE_P(
    Table, Refusals,
    testing::Values(
        Refusal{"seed = 1\n[optimiser]\nlr = 0.1\n", nullptr, {"e.toml:2:2", "unknown key 'optimiser'", "'optimizer'"}},
        Refusal{"[optimizer]\nlearning_rat = 0.1\n", nullptr, {"e.toml:2:1", "unknown key 'optimizer.learning_rat'"}},
        Refusal{"[optimizer]\nmomentun = 0.1\n", nullptr, {"unknown key 'optimizer.momentun'", "'optimizer.momentum'"}},
        Refusal{"epoch = 3\n", nullptr, {"unknown key 'epoch'", "'epochs'"}},
        Refusal{"lr = 0.1\n", nullptr, {"unknown key 'lr'", "'optimizer.lr'"}},
        Refusal{"batch = 0\n", nullptr, {"e.toml:1:1", "'batch' is 0", "1 or more"}},
        Refusal{"batch = -5\n", nullptr, {"'batch' is -5", "1 or more"}},
        Refusal{"batch = 64.0\n", nullptr, {"'batch' must be an integer"}},
        Refusal{"batch = \"64\"\n", nullptr, {"'batch' must be an integer"}},
        Refusal{"batch = 8\ngrain = 9\n", nullptr, {"e.toml:2:1", "'grain' is 9", "'batch' (8)"}},
        Refusal{"grain = -1\n", nullptr, {"'grain' is -1"}},
        Refusal{"batch = 1000000\ngrain = 1\n", nullptr, {"131072 grains"}},
        Refusal{"[optimizer]\nlr = nan\n", nullptr, {"e.toml:2:1", "'optimizer.lr' is nan", "finite"}},
        Refusal{"[optimizer]\nlr = inf\n", nullptr, {"'optimizer.lr' is inf"}},
        Refusal{"[optimizer]\nlr = -0.1\n", nullptr, {"'optimizer.lr' is -0.1"}},
        Refusal{"[optimizer]\nname = \"sdg\"\n", nullptr, {"'optimizer.name' is \"sdg\"", "adamw"}},
        Refusal{"[model]\nname = \"unet\"\n", nullptr, {"e.toml:2:1", "unet gives a class per pixel", "data.target"}},
        Refusal{"[data]\ntarget = \"mask\"\n", nullptr, {"e.toml:2:1", "mlp gives a class per image", "unet"}},
        Refusal{"[model]\nname = \"torchscript\"\n", nullptr, {"e.toml:2:1", "'model.torchscript' is missing"}},
        Refusal{"batch = 4\ngrain = 2\n[model]\nname = \"unet\"\n[data]\ntarget = \"mask\"\n[loss]\nname = \"dice\"\n",
                nullptr,
                {"e.toml:2:1", "dice couples the samples of a step", "cross_entropy"}},
        Refusal{"[data]\ntarget = \"value\"\n", nullptr, {"cross_entropy does not fit", "loss.name = \"mse\""}},
        Refusal{"[data]\nformat = \"text\"\n", nullptr, {"no target \"class\"", "data.target = \"next\""}},
        Refusal{"[data]\nformat = \"csv\"\ntrain_images = \"a\"\n", nullptr, {"does not apply to data 'csv'"}},
        Refusal{"[split]\nrule = \"random\"\nfold = 5\n", nullptr, {"'split.fold' is 5", "choose 0 to 4"}},
        Refusal{"[split]\nfolds = 3\n", nullptr, {"does not apply to split 'files'"}},
        Refusal{"[model]\nname = \"lenet5\"\nheads = 3\n", nullptr, {"e.toml:3:1", "does not apply to model 'lenet5'"}},
        Refusal{"[optimizer]\nname = \"adam\"\nmomentum = 0.9\n",
                nullptr,
                {"e.toml:3:1", "does not apply to optimizer 'adam'"}},
        Refusal{
            "[optimizer]\nname = \"adam\"\nbetas = [0.9]\n", nullptr, {"'optimizer.betas' is [0.9]", "two numbers"}},
        Refusal{"[optimizer]\nname = \"adam\"\nbetas = [0.9, \"x\"]\n",
                nullptr,
                {"'optimizer.betas' must be a list of numbers"}},
        Refusal{"[optimizer]\nname = \"lars\"\nmomentum = 0.9\nnesterov = true\n",
                nullptr,
                {"does not apply to optimizer 'lars'"}},
        Refusal{"[optimizer]\nname = \"lars\"\neta = 0\n", nullptr, {"'optimizer.eta' is 0", "above 0"}},
        Refusal{"[optimizer]\nexclude_vectors = true\n", nullptr, {"does not apply to optimizer 'sgd'"}},
        Refusal{"[optimizer]\nnesterov = true\n", nullptr, {"needs momentum"}},
        Refusal{"optimizer = 3\n", nullptr, {"'optimizer' is a section"}},
        Refusal{"seed = = 3\n", nullptr, {"e.toml:1", "not TOML"}},
        Refusal{"seed = 1\nseed = 2\n", nullptr, {"e.toml:2", "not TOML"}},
        // U+FD7F and an accented letter, for which toml++ executes what it takes for impossible (archive/toml.h).
        Refusal{"se\xef\xb5\xbf"
                "ed = 1\n",
                nullptr,
                {"e.toml:1", "not TOML"}},
        Refusal{"n\xc3\xa9 = 1\n", nullptr, {"e.toml:1", "not TOML"}},
        Refusal{"name = \"../x\"\n", nullptr, {"'name' is"}},
        Refusal{"", "optimizer.lr=nan", {"--set optimizer.lr=nan", "'optimizer.lr' is nan"}},
        Refusal{"", "optimizer.lr=fast", {"--set optimizer.lr=fast", "must be a number"}},
        // toml++ makes no double of an integer that none is; 0 was read.
        Refusal{"", "optimizer.lr=9223372036854775807", {"optimizer.lr", "no binary64 number equals", "decimal point"}},
        Refusal{"", "optimzer.lr=1", {"--set optimzer.lr=1", "unknown key"}},
        Refusal{"", "batch", {"--set batch", "key=value"}}, Refusal{"", "batch=4\nseed=9", {"--set"}},
        Refusal{"batch = 8\n", "grain=9", {"--set grain=9", "above 'batch' (8)"}}));

TEST(Experiment, DefaultsAreValid) { EXPECT_EQ(error_of(""), ""); }

// A file on disk, as an experiment: the error's text, or "" where it is taken.
std::string error_of_file(const std::string& text, const std::vector<std::string>& overrides = {}) {
  const std::string path = testing::TempDir() + "incomplete.toml";
  std::ofstream(path, std::ios::binary) << text;
  try {
    (void)load_experiment(path, overrides);
  } catch (const archive::UserError& error) {
    return error.what();
  }
  return "";
}

TEST(Experiment, FileThatSaysNothingIsRefused) {
  for (const char* text :
       {"", "\n", " \t\r\n\n", "# an experiment\n", "# no newline", "\xef\xbb\xbf", "[model]\n[data]\n"}) {
    const std::string error = error_of_file(text);
    EXPECT_NE(
        error.find(
            "incomplete.toml: the experiment says nothing: 'data.path', 'model.name' and 'optimizer.lr' are missing"),
        std::string::npos)
        << testing::PrintToString(text) << ": " << error;
  }
}

// Wherever a download of an example ends, it is refused until the line of the last key that an experiment must say.
TEST(Experiment, FileCutShortIsRefused) {
  for (const char* name : {"mlp", "lenet5", "resnet18", "unet", "vit", "large-batch"}) {
    std::ostringstream stream;
    stream << std::ifstream(std::string(ISOBIT_SOURCE_DIR "/examples/fashion-") + name + ".toml").rdbuf();
    const std::string whole = stream.str();
    const std::size_t last = std::max({whole.find("\npath ="), whole.find("\n[model]\nname ="), whole.find("\nlr =")});
    ASSERT_NE(last, std::string::npos) << name;
    for (std::size_t size = 0; size <= last + 1; ++size)
      ASSERT_NE(error_of_file(whole.substr(0, size)), "") << name << " cut after " << size << " bytes";
    EXPECT_EQ(error_of_file(whole), "");
  }
  EXPECT_NE(
      error_of_file("epochs = 3\n[data]\npath = \"data\"\n").find("does not say 'model.name' and 'optimizer.lr' (add"),
      std::string::npos);
  EXPECT_NE(error_of_file("[data]\npath = \"data\"\n[model]\nname = \"mlp\"\n").find("does not say 'optimizer.lr'"),
            std::string::npos);
}

TEST(Experiment, OverridesSupplyWhatAFileLeavesOut) {
  EXPECT_EQ(error_of_file("", {"data.path=data", "model.name=lenet5", "optimizer.lr=0.1"}), "");
  EXPECT_EQ(error_of_file("[data]\npath = \"data\"\n[optimizer]\nlr = 1\n", {"model.name=mlp"}), "");
  EXPECT_NE(error_of_file("", {"data.path=data", "model.name=lenet5"}).find("does not say 'optimizer.lr'"),
            std::string::npos);
}

TEST(Experiment, RequiredKeysAreKeys) {
  for (const std::string_view required : kRequiredKeys)
    EXPECT_TRUE(std::any_of(experiment_keys().begin(), experiment_keys().end(), [&](const Key& key) {
      return key.name == required;
    })) << required;
}

TEST(Experiment, OverridesComeAfterTheFileInOrder) {
  const Experiment e =
      parse_experiment("batch = 8\n", "e.toml", {"batch=16", "model.name=lenet5", "optimizer.lr=1", "batch=32"});
  EXPECT_EQ(e.batch, 32);
  EXPECT_EQ(e.model.name, "lenet5");
  EXPECT_EQ(e.optimizer.lr, 1.0);
}

TEST(Experiment, GrainZeroIsTheBatch) {
  EXPECT_EQ(parse_experiment("batch = 8\n", "e.toml").grain_size(), 8);
  EXPECT_EQ(parse_experiment("batch = 8\ngrain = 3\n", "e.toml").grain_size(), 3);
}

TEST(Experiment, CanonicalFormReadsBackToItself) {
  const std::string text =
      "name = \"a-b\"\nseed = 9\nbatch = 10\ngrain = 3\n[data]\npath = \"with \\\"quotes\\\" and \\\\\"\nmean = 0.1\n"
      "[model]\nhidden = [3, 5]\n[optimizer]\nname = \"adamw\"\nlr = 1e-3\nbetas = [0.5, 0.25]\n[schedule]\nname = "
      "\"cosine\"\n";
  const Experiment e = parse_experiment(text, "e.toml");
  const std::string canonical = to_toml(e);
  EXPECT_EQ(to_toml(parse_experiment(canonical, "canonical")), canonical);
  EXPECT_NE(canonical.find("betas = [0.5, 0.25]"), std::string::npos);
  EXPECT_NE(canonical.find("mean = 0.1\n"), std::string::npos);
  EXPECT_EQ(canonical.find("momentum"), std::string::npos);  // means nothing for adamw
}

// A list over many lines is written in one; a text of many lines, too.
TEST(Experiment, CanonicalFormOfManyDotsReadsBack) {
  const std::string dots(100, '.');
  std::string text = "[data]\nformat = \"csv\"\npath = '''it's\n." + dots + "\n'''\ninputs = [\n";
  for (int i = 0; i < 100; ++i) text += "  \"feature." + std::to_string(i) + "\",\n";
  text += "]\ntargets = [\"y.1\"]\n# " + dots + "\n";
  const Experiment read = parse_experiment(text, "columns.toml");
  EXPECT_EQ(read.data.inputs.size(), 100u);
  const std::string written = to_toml(read);
  EXPECT_EQ(to_toml(parse_experiment(written, "written.toml")), written);
}

TEST(Experiment, ExamplesAreValid) {
  for (const auto& [file, model] : {std::pair{"mlp", "mlp"},
                                    {"lenet5", "lenet5"},
                                    {"resnet18", "resnet18"},
                                    {"unet", "unet"},
                                    {"vit", "vit_tiny"}}) {
    const Experiment e = load_experiment(std::string(ISOBIT_SOURCE_DIR "/examples/fashion-") + file + ".toml");
    EXPECT_EQ(e.model.name, model);
  }
}

// src/study reads records without this table, and has the defaults as text.
TEST(Experiment, StudiesKnowTheDefaultsOfTheTable) {
  Experiment defaults;
  std::string text = "\n";
  for (const Key& key : experiment_keys())
    text += std::string(key.name) + " = " + toml_value(key.field(defaults)) + "\n";
  EXPECT_EQ(study::kExperimentDefaults, text);
}

TEST(Experiment, StudiesKnowWhatTasksMeasure) {
  for (const char* target : {"class", "mask", "silhouette", "labels", "value", "sequence", "next"}) {
    Experiment experiment;
    experiment.data.target = target;
    if (std::string(target) == "labels") experiment.loss.name = "binary_cross_entropy";
    if (std::string(target) == "value") experiment.loss.name = "mse";
    EXPECT_EQ(study::score_of(target), make_task(experiment)->metrics(1, 1, {}).name) << target;
  }
}

// To renew the table: run with ISOBIT_UPDATE_DOCS=1.
TEST(Experiment, DocumentationListsEveryKeyAsTheTableSays) {
  const std::string path = ISOBIT_SOURCE_DIR "/docs/experiment.md";
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  const std::string document = text.str(), table = keys_as_markdown();
  const auto begin = document.find("| Key |");
  ASSERT_NE(begin, std::string::npos);
  const auto blank = document.find("\n\n", begin);
  const auto end = blank == std::string::npos ? document.size() : blank + 1;
  if (std::getenv("ISOBIT_UPDATE_DOCS") != nullptr) {
    std::ofstream(path) << document.substr(0, begin) + table + document.substr(end);
    return;
  }
  EXPECT_EQ(document.substr(begin, end - begin), table) << "docs/experiment.md is not what the table of keys says";
}

}  // namespace
}  // namespace isobit::train
