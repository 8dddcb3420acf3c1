// The libFuzzer program (scripts/fuzz): ISOBIT_FUZZ_TARGET names the reader, ISOBIT_FUZZ_SEEDS a folder that gets its
// seeds.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <string>
#include <vector>

#include "fuzz/target.h"

extern "C" std::size_t LLVMFuzzerMutate(std::uint8_t* data, std::size_t size, std::size_t most);

namespace {

using namespace isobit::fuzz;

const Target* target = nullptr;
std::vector<std::string> seeds;

}  // namespace

extern "C" int LLVMFuzzerInitialize(int*, char***) try {
  const char* name = std::getenv("ISOBIT_FUZZ_TARGET");
  target = &find_target(name == nullptr ? "" : name);
  seeds = target->seeds();
  std::erase_if(seeds, [](const std::string& seed) { return seed.size() > kLongestChanged; });
  if (const char* folder = std::getenv("ISOBIT_FUZZ_SEEDS")) {
    std::filesystem::create_directories(folder);
    for (std::size_t i = 0; i < seeds.size(); ++i)
      put(std::filesystem::path(folder) / ("seed-" + std::to_string(i)), seeds[i]);
  }
  return 0;
} catch (const std::invalid_argument& error) {
  std::fprintf(stderr, "%s\n", error.what());
  std::_Exit(2);
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  try {
    target->run({reinterpret_cast<const char*>(data), size});
  } catch (const std::exception& error) {
    std::fprintf(stderr, "fuzz: %s\n", error.what());
    std::abort();
  }
  return 0;
}

// Half by libFuzzer, half by what readers of numbers and nested texts trip over.
extern "C" std::size_t LLVMFuzzerCustomMutator(std::uint8_t* data, std::size_t size, std::size_t most, unsigned seed) {
  if (seed % 2 == 0) return LLVMFuzzerMutate(data, size, most);
  std::string text = mutated({reinterpret_cast<const char*>(data), size}, seeds, seed);
  if (text.size() > most) text.resize(most);
  std::memcpy(data, text.data(), text.size());
  return text.size();
}
