// The text of a checkpoint of `isobit run`; its tensors are the target "safetensors".
#include "fuzz/target.h"
#include "fuzz/targets.h"
#include "train/checkpoint_text.h"

namespace isobit::fuzz {

void run_checkpoint(std::string_view input) {
  accepts([&] {
    const train::CheckpointText text = train::parse_checkpoint_text(input);
    require(train::format_checkpoint_text(text) == input, "a checkpoint's text has one spelling");
    require(text.steps_done >= 1 && text.epoch >= 1 && text.position >= 0, "a step of the run");
    require(text.sums.samples >= 0 && text.sums.counts.correct >= 0 && text.sums.counts.targets >= 0, "counts");
  });
}

std::vector<std::string> checkpoint_seeds() {
  const std::string plain = train::format_checkpoint_text({8, 2, 24, {0.5, 0, 24, {3, 0, 0}, true}});
  std::vector<std::string> seeds = {plain,
                                    train::format_checkpoint_text({8, 2, 24, {-1e-300, 7.5, 24, {3, 96, 0.1}, false}})};
  for (const char* other : {"1e300", "true", "-1", "8.0", "\"8\""}) {
    std::string seed = plain;
    seeds.push_back(seed.replace(seed.find(":8,") + 1, 1, other));
  }
  return seeds;
}

}  // namespace isobit::fuzz
