// A step's grains by several workers of one process: pulled in any order, one of them slow, one stopped in the middle
// and its grain taken over. The bits are those of one worker.
#include <gtest/gtest.h>

#include <torch/csrc/jit/api/module.h>

#include <atomic>
#include <chrono>
#include <set>
#include <thread>

#include "archive/user_error.h"
#include "train/switched_on.h"
#include "train/synthetic_data.h"
#include "train/trainer.h"

namespace isobit::train {
namespace {

struct Course {
  const char* name;
  const char* experiment;
  bool masks;
};

const Course kCourses[] = {
    {"mlp with dropout",
     "seed = 3\nsteps = 4\nbatch = 24\ngrain = 5\n[model]\nname = \"mlp\"\nhidden = [20]\n"
     "dropout = 0.25\n[augment]\ncrop = 1\nflip = true\n[optimizer]\nname = \"adamw\"\nlr = 0.002",
     false},
    {"resnet18",
     "seed = 4\nsteps = 3\nbatch = 12\ngrain = 4\n[model]\nname = \"resnet18\"\n[optimizer]\nlr = 0.05\n"
     "momentum = 0.9",
     false},
    {"unet of masks",
     "seed = 5\nsteps = 3\nbatch = 8\ngrain = 2\n[data]\ntarget = \"mask\"\n[model]\nname = \"unet\"\n"
     "width = 4\nclasses = 11\n[augment]\nflip = true\n[optimizer]\nlr = 0.05",
     true},
    {"one grain", "seed = 6\nsteps = 3\nbatch = 12\n[model]\nname = \"resnet18\"\n[optimizer]\nlr = 0.05", false}};

using Hook = std::function<void(int worker, const GrainPlace& grain)>;

std::string run(const Course& course, int workers, GrainOrder order, const Hook& hook = {}) {
  Experiment experiment = parse_experiment(course.experiment, course.name);
  experiment.fingerprint.gradients = 2;
  const DataSets data = course.masks ? synthetic_masks(20, 4, 12) : synthetic_data(60, 8, 12);
  Execution execution;
  execution.grain_order = order;
  execution.workers = workers;
  execution.before_add = hook;
  Trainer trainer(experiment, data, execution);
  std::string text;
  while (trainer.steps_done() < trainer.timetable().steps()) {
    const StepResult step = trainer.step();
    text += std::to_string(step.loss) + " " + std::to_string(step.correct) + " " + kernels::to_hex(step.batch_digest) +
            " " + kernels::to_hex(trainer.weights_fingerprint()) + " " +
            kernels::to_hex(trainer.optimizer_fingerprint()) + "\n";
    EXPECT_EQ(step.gradients.has_value(), step.place.step % 2 == 0);
    if (step.gradients) text += kernels::to_hex(*step.gradients) + "\n";
  }
  const Metrics test = trainer.evaluate(), train = trainer.epoch_metrics();
  return text + std::to_string(test.loss) + " " + std::to_string(train.loss) + " " + std::to_string(train.score);
}

class Workers : public SwitchedOn {};

TEST_F(Workers, AnyNumberGivesTheBitsOfOne) {
  for (const Course& course : kCourses) {
    const std::string one = run(course, 1, GrainOrder::ascending);
    for (const int workers : {2, 3, 7}) {
      for (const GrainOrder order : {GrainOrder::ascending, GrainOrder::shuffled})
        EXPECT_EQ(run(course, workers, order), one) << course.name << ", " << workers << " workers";
    }
  }
}

// What the line of a step says of the gradients is what isobit.fingerprint says of them by name, and no bit of the rest
// changes for it.
TEST_F(Workers, GradientsHaveTheFingerprintOfTheirNamedTensors) {
  for (const Course& course : kCourses) {
    Experiment experiment = parse_experiment(course.experiment, course.name), without = experiment;
    experiment.fingerprint.gradients = 1;
    const DataSets data = course.masks ? synthetic_masks(20, 4, 12) : synthetic_data(60, 8, 12);
    Trainer trainer(experiment, data), plain(without, data);
    std::set<std::string> seen;
    while (trainer.steps_done() < 3) {
      const StepResult step = trainer.step();
      EXPECT_FALSE(plain.step().gradients.has_value());
      EXPECT_EQ(trainer.weights_fingerprint(), plain.weights_fingerprint());
      std::vector<NamedTensor> named;
      for (const auto& [name, parameter] : trainer.model().parameters())
        named.push_back({name, trainer.gradients().at(named.size())});
      ASSERT_TRUE(step.gradients.has_value());
      EXPECT_EQ(*step.gradients, trace::fingerprint(named)) << course.name;
      std::swap(named.front().tensor, named.back().tensor);  // other names for the same values
      EXPECT_NE(*step.gradients, trace::fingerprint(named)) << course.name;
      seen.insert(kernels::to_hex(*step.gradients));
    }
    EXPECT_EQ(seen.size(), 3u) << course.name;
  }
}

TEST_F(Workers, ASlowOneLeavesItsShareToTheOthers) {
  const std::string one = run(kCourses[0], 1, GrainOrder::ascending);
  std::atomic<int> by[2] = {0, 0};
  const Hook slow = [&](int worker, const GrainPlace&) {
    if (worker == 0) std::this_thread::sleep_for(std::chrono::milliseconds(60));
    ++by[worker];
  };
  EXPECT_EQ(run(kCourses[0], 2, GrainOrder::ascending, slow), one);
  EXPECT_EQ(by[0] + by[1], 5 + 5 + 3 + 5);
  EXPECT_GT(by[1], 0);
}

// Each worker in turn stops while it holds a grain, and one ahead: others compute both.
TEST_F(Workers, AStoppedOnesGrainsAreTakenOver) {
  for (const Course& course : {kCourses[0], kCourses[1], kCourses[2]}) {
    const std::string one = run(course, 1, GrainOrder::ascending);
    for (const int victim : {0, 1, 2}) {
      for (const std::int64_t grain : {0, 1, 2}) {
        std::atomic<int> stopped = 0;
        const Hook stop = [&](int worker, const GrainPlace& place) {
          if (worker != victim || place.index < grain) return;
          ++stopped;
          throw WorkerStopped();
        };
        EXPECT_EQ(run(course, 3, GrainOrder::ascending, stop), one) << course.name << ", " << victim << ", " << grain;
      }
    }
  }
}

TEST_F(Workers, AllStoppedIsAnErrorAndLeavesTheStepToBeDoneAgain) {
  const Experiment experiment = parse_experiment(kCourses[1].experiment, "test");
  const DataSets data = synthetic_data(60, 8, 12);
  bool stop = false;
  Execution execution;
  execution.workers = 2;
  execution.before_add = [&](int, const GrainPlace& place) {
    if (stop && place.index == 2) throw WorkerStopped();
  };
  Trainer trainer(experiment, data, execution), undisturbed(experiment, data);
  (void)trainer.step(), (void)undisturbed.step();
  stop = true;
  EXPECT_THROW((void)trainer.step(), std::logic_error);
  EXPECT_EQ(trainer.weights_fingerprint(), undisturbed.weights_fingerprint());
  stop = false;
  (void)trainer.step(), (void)undisturbed.step();
  EXPECT_EQ(trainer.weights_fingerprint(), undisturbed.weights_fingerprint());
}

TEST_F(Workers, AnErrorOfOneEndsTheStepOfAll) {
  const Experiment experiment = parse_experiment(kCourses[0].experiment, "test");
  const DataSets data = synthetic_data(60, 8, 12);
  Execution execution;
  execution.workers = 3;
  execution.before_add = [](int worker, const GrainPlace&) {
    if (worker == 1) throw NotFinite("made up");
  };
  Trainer trainer(experiment, data, execution);
  for (int i = 0; i < 20 && trainer.steps_done() == 0; ++i) {
    try {
      (void)trainer.step();  // the others may have been faster
    } catch (const NotFinite& error) {
      EXPECT_STREQ(error.what(), "made up");
      EXPECT_EQ(trainer.steps_done(), 0);
      return;
    }
    trainer.restore(Trainer(experiment, data).state());
  }
  FAIL() << "the second worker never got a grain";
}

// A file's batch norm and dropout: statistics are taken by grain, applied in grain order, whoever computes them.
class ScriptGrains : public Workers {
 protected:
  ScriptGrains() {
    torch::jit::Module net("Net");
    net.register_parameter("weight",
                           at::arange(-720, 720).to(at::kFloat).mul(1e-4).view({10, 144}).requires_grad_(true), false);
    net.register_buffer("running_mean", at::zeros({144}));
    net.register_buffer("running_var", at::ones({144}));
    net.register_buffer("calls", at::zeros({}, at::kLong));
    net.register_attribute("training", c10::BoolType::get(), true);
    net_ = std::make_unique<torch::jit::Module>(net);
  }
  std::string experiment(const std::string& body) {
    net_->define("def forward(self, x):\n    x = x.flatten(1)\n" + body +
                 "    x = torch.dropout(torch.relu(x), 0.25, self.training)\n"
                 "    return torch.linear(x, self.weight)\n");
    net_->save(folder_.path() / "net.pt");
    return "seed = 10\nsteps = 4\nbatch = 10\ngrain = 4\n[model]\nname = \"torchscript\"\ntorchscript = \"" +
           (folder_.path() / "net.pt").string() + "\"\n[optimizer]\nlr = 0.5\n";
  }

  ScratchFolder folder_;
  std::unique_ptr<torch::jit::Module> net_;
};

TEST_F(ScriptGrains, AreThoseOfOneWorkerInAnyOrder) {
  const std::string text = experiment(
      "    if self.training:\n        self.calls.add_(1)\n"
      "    x = torch.batch_norm(x, None, None, self.running_mean, self.running_var, self.training, 0.1, 1e-5, "
      "False)\n");
  const Course course{"torchscript", text.c_str(), false};
  const std::string one = run(course, 1, GrainOrder::ascending);
  EXPECT_EQ(run(course, 1, GrainOrder::shuffled), one);
  EXPECT_EQ(run(course, 3, GrainOrder::shuffled), one);
  Trainer trainer(parse_experiment(text, "test"), synthetic_data(60, 8, 12));
  (void)trainer.step();
  for (const auto& [name, tensor] : trainer.model().buffers()) {
    if (name == "calls") {
      EXPECT_EQ(tensor.item<std::int64_t>(), 3);  // grains of the step
    } else if (name == "running_mean") {
      EXPECT_GT(tensor.abs().max().item<float>(), 0);
    }
  }
}

TEST_F(ScriptGrains, ABufferThatKeepsAnAverageIsRefusedByName) {
  const std::string text = experiment(
      "    if self.training:\n        self.running_mean.mul_(0.9).add_(x.mean(0), alpha=0.1)\n"
      "    x = x - self.running_mean\n");
  const DataSets data = synthetic_data(60, 8, 12);
  try {
    (void)Trainer(parse_experiment(text, "test"), data).step();
    FAIL() << "expected a refusal";
  } catch (const archive::UserError& error) {
    EXPECT_NE(std::string(error.what()).find("model.running_mean: this buffer changes"), std::string::npos)
        << error.what();
  }
  Experiment whole = parse_experiment(text, "test");
  whole.grain = 0;
  Trainer trainer(whole, data);
  (void)trainer.step();  // in one grain it may
}

// Claims of several threads at once: each grain once, also those given back.
TEST(LocalGrainSource, HandsOutEachGrainOnce) {
  grains::LocalGrainSource source([](std::int64_t step) {
    std::vector<std::int64_t> all(step > 3 ? 0 : 50);
    for (std::size_t i = 0; i < all.size(); ++i) all[i] = static_cast<std::int64_t>(i);
    return all;
  });
  for (const std::int64_t step : {1, 2, 3}) {
    std::mutex mutex;
    std::multiset<std::int64_t> done;
    const auto work = [&](int number) {
      for (int k = 0;; ++k) {
        const auto grain = source.claim(step);
        if (!grain) return;
        if ((k + number) % 3 == 0) {
          source.give_back(step, *grain);
          continue;
        }
        {
          const std::lock_guard lock(mutex);
          done.insert(*grain);
        }
        source.done(step, *grain);
      }
    };
    std::vector<std::thread> threads;
    for (int i = 0; i < 4; ++i) threads.emplace_back(work, i);
    for (std::thread& thread : threads) thread.join();
    EXPECT_EQ(done.size(), 50U);
    EXPECT_EQ(std::set<std::int64_t>(done.begin(), done.end()).size(), 50U);
  }
  EXPECT_FALSE(source.claim(4));
}

}  // namespace
}  // namespace isobit::train
