// Every exact overload gives the same bits under each CPU capability and thread count that stock has.
//
// Stock chooses its instruction set once per process, so this program runs itself with ATEN_CPU_CAPABILITY set
// and compares the digests that it prints.
#include "aten/exact_operators.h"

#include <cinttypes>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <memory>
#include <set>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include <unistd.h>

#include <gtest/gtest.h>

#include <ATen/Parallel.h>

#include "aten/classification.h"
#include "aten/guard.h"
#include "hostile_samples.h"

namespace isobit::aten {
namespace {

using test::Values;

// Nothing to compare: no values are computed, or they need processes. Everything else must have a sample.
const std::set<std::string_view> kExemptReasons = {
    "view: shares the memory, computes nothing",
    "describes a tensor or its position in the graph: no values",
    "allocates or resizes memory; its values are the caller's to write, and NaN before",
    "another memory for a tensor",
    "sends bits between processes unchanged",
    "integers, whose sums are exact in any order, or a group of one rank, which copies",
    "shares the memory, read as another type",
};
const std::map<std::string_view, std::string_view> kExempt = {
    {"aten::_pin_memory", "a copy into memory that needs a GPU's driver"},
    {"aten::pin_memory", "a copy into memory that needs a GPU's driver"},
};

// Stock operators outside the list that do differ: the test must see it.
constexpr const char* kDiffering[] = {"aten::addcmul", "aten::sigmoid"};

std::vector<at::ScalarType> types_of(ExactRule rule) {
  switch (rule) {
    case ExactRule::moves: return {at::kFloat, at::kLong, at::kBool};
    case ExactRule::inspects: return {at::kFloat, at::kDouble, at::kBFloat16, at::kLong};
    case ExactRule::converts:
      return {at::kFloat, at::kDouble, at::kHalf, at::kBFloat16, at::kLong, at::kByte, at::kBool};
    case ExactRule::real: return {at::kFloat, at::kDouble, at::kHalf, at::kBFloat16, at::kLong};
    case ExactRule::integers: return {at::kLong, at::kInt, at::kByte};
    case ExactRule::rounds: return {at::kFloat, at::kDouble, at::kLong};
    case ExactRule::allocates:
    case ExactRule::reinterprets:
    case ExactRule::collects:
    case ExactRule::places:
    case ExactRule::sorts: break;
  }
  return {at::kFloat, at::kDouble, at::kLong};
}

// The digest of the results, among which in-place operators return their first argument; 0 where no sample is accepted.
std::uint64_t digest_of_call(const std::string& name, at::ScalarType type, std::string& error) {
  for (const at::ScalarType out : {type, at::kBool, at::kLong}) {
    try {
      const Values results = test::call_operator(name, test::sample_of(name, type, out, test::kManySide));
      std::uint64_t digest = 1;
      for (const c10::IValue& value : results) digest = digest * 31 + test::digest_of(value);
      return digest;
    } catch (const c10::Error& refused) {
      error = refused.what_without_backtrace();
    }
  }
  return 0;
}

bool is_certified(std::string_view full_name) {
  const std::size_t dot = full_name.find('.');
  const std::string_view overload = dot == full_name.npos ? std::string_view() : full_name.substr(dot + 1);
  return classify(full_name.substr(0, dot), overload).kind == OperatorClass::certified;
}

bool is_exempt(const ExactOperator& op) { return kExemptReasons.count(op.reason) || kExempt.count(op.name); }

struct Digests {
  std::map<std::string, std::string> of;  // "aten::add.Tensor Float" -> digest
  std::string without_sample;             // a line each
};

Digests digests_here() {
  Digests digests;
  const auto note = [&](const std::string& name, at::ScalarType type, std::uint64_t digest) {
    char text[17];
    std::snprintf(text, sizeof text, "%016" PRIx64, digest);
    digests.of[name + " " + c10::toString(type)] = text;
  };
  std::string error;
  for (const char* name : kDiffering) note(name, at::kFloat, digest_of_call(name, at::kFloat, error));
  const Guard guard;  // the rules hold only under it
  for (const ExactOperator& op : exact_operators()) {
    if (is_exempt(op) || is_certified(op.name)) continue;
    const std::string name(op.name);
    bool any = false;
    for (const at::ScalarType type : types_of(op.rule)) {
      const std::uint64_t digest = digest_of_call(name, type, error);
      if (digest != 0) note(name, type, digest);
      any |= digest != 0;
    }
    if (!any) digests.without_sample += "nosample " + name + " " + error.substr(0, error.find('\n')) + "\n";
  }
  return digests;
}

constexpr const char* kPrintWithThreads = "ISOBIT_TEST_PRINT_WITH_THREADS";

// A digest that changed from call to call would compare nothing. The other processes of the test below run this one
// to print theirs.
TEST(ExactDigests, Repeat) {
  const char* threads = std::getenv(kPrintWithThreads);
  if (threads != nullptr) at::set_num_threads(std::atoi(threads));
  const Digests first = digests_here();
  if (threads != nullptr) {
    for (const auto& [name, digest] : first.of) std::printf("digest %s %s\n", name.c_str(), digest.c_str());
    std::printf("%s", first.without_sample.c_str());
    return;
  }
  const Digests second = digests_here();
  for (const auto& [name, digest] : first.of) EXPECT_EQ(second.of.at(name), digest) << name;
}

Digests run(const std::string& capability, int threads) {
  const std::string command = "ATEN_CPU_CAPABILITY=" + capability + " " + kPrintWithThreads + "=" +
                              std::to_string(threads) + " /proc/" + std::to_string(getpid()) +
                              "/exe --gtest_filter=ExactDigests.Repeat";
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> pipe(popen(command.c_str(), "r"), pclose);
  Digests digests;
  char line[512];
  while (std::fgets(line, sizeof line, pipe.get())) {
    std::istringstream words(line);
    std::string kind, name, type, digest;
    words >> kind >> name >> type >> digest;
    if (kind == "digest") digests.of[name + " " + type] = digest;
    if (kind == "nosample") digests.without_sample += line;
  }
  return digests;
}

TEST(Exact, SameBitsUnderEveryCapabilityAndThreadCount) {
  const Digests first = run("default", 1);
  EXPECT_EQ(first.without_sample, "") << "an exact overload needs a sample or a stated exemption";
  ASSERT_GT(first.of.size(), 500u);
  std::set<std::string> differing;
  std::vector<std::pair<std::string, int>> settings = {{"default", 3}, {"avx2", 1}, {"avx2", 2}};
  if (__builtin_cpu_supports("avx512f")) settings.push_back({"avx512", 3});
  for (const auto& [capability, threads] : settings) {
    const Digests other = run(capability, threads);
    EXPECT_EQ(other.of.size(), first.of.size());
    for (const auto& [name, digest] : first.of) {
      const auto found = other.of.find(name);
      if (found == other.of.end() || found->second != digest) differing.insert(name);
    }
  }
  for (const char* planted : kDiffering) {
    EXPECT_EQ(differing.erase(std::string(planted) + " Float"), 1u) << planted << " should differ: the test is blind";
  }
  for (const std::string& name : differing) ADD_FAILURE() << name << " differs: it does not belong in the list";
}

// ATEN_CPU_CAPABILITY does not reach the libraries that stock calls (MKL's vector square root is off in the last
// bit), so each rounding operator is also compared with the language's own operation, value by value.
template <typename Float>
using Scalar = Float (*)(Float a, Float b);

template <typename Float>
const std::map<std::string, Scalar<Float>>& ieee() {
  static const std::map<std::string, Scalar<Float>> table = {
      {"mul", [](Float a, Float b) { return a * b; }},
      {"div", [](Float a, Float b) { return a / b; }},
      {"reciprocal", [](Float a, Float) { return 1 / a; }},
      {"sqrt", [](Float a, Float) { return std::sqrt(a); }},
      {"neg", [](Float a, Float) { return -a; }},
      {"abs", [](Float a, Float) { return std::fabs(a); }},
      {"sign", [](Float a, Float) { return Float((0 < a) - (a < 0)); }},
      {"sgn", [](Float a, Float) { return Float((0 < a) - (a < 0)); }},
      {"floor", [](Float a, Float) { return std::floor(a); }},
      {"ceil", [](Float a, Float) { return std::ceil(a); }},
      {"trunc", [](Float a, Float) { return std::trunc(a); }},
      {"round", [](Float a, Float) { return std::nearbyint(a); }},
      {"frac", [](Float a, Float) { return a - std::trunc(a); }},
      {"sigmoid", [](Float a, Float) { return 1 / (1 + std::exp(-a)); }},  // planted: stock's own formula differs
      {"threshold", [](Float a, Float) { return a <= Float(0.7) ? Float(0.7) : a; }},
  };
  return table;
}

// How many elements differ from the language's operation; NaN equals NaN, zeros by their sign.
template <typename Float>
std::int64_t differing_elements(const std::string& name, at::ScalarType type) {
  const std::string base = name.substr(6, name.find_first_of(".", 6) - 6);
  const auto found = ieee<Float>().find(base.back() == '_' ? base.substr(0, base.size() - 1) : base);
  if (found == ieee<Float>().end()) return -1;
  const Values sample = test::sample_of(name, type, type, test::kManySide);
  const at::Tensor a = sample[0].toTensor().clone();
  const at::Tensor b = sample.size() > 1 && sample[1].isTensor() ? sample[1].toTensor() : a;
  const at::Tensor y = test::call_operator(name, sample)[0].toTensor().contiguous();
  std::int64_t differing = 0;
  for (std::int64_t i = 0; i < y.numel(); ++i) {
    const Float second = b.numel() == a.numel() ? b.const_data_ptr<Float>()[i] : Float(0);
    const Float expected = found->second(a.const_data_ptr<Float>()[i], second);
    const Float got = y.const_data_ptr<Float>()[i];
    const bool same =
        (std::isnan(expected) && std::isnan(got)) || (expected == got && std::signbit(expected) == std::signbit(got));
    differing += !same;
  }
  return differing;
}

TEST(Exact, RoundsAsTheLanguageDoes) {
  EXPECT_GT(differing_elements<float>("aten::sigmoid", at::kFloat), 0) << "the test is blind";
  const Guard guard;
  for (const ExactOperator& op : exact_operators()) {
    if ((op.rule != ExactRule::rounds && op.rule != ExactRule::real) || is_certified(op.name)) continue;
    const std::string name(op.name);
    EXPECT_EQ(differing_elements<float>(name, at::kFloat), 0) << name << " float32 (-1: no formula to compare with)";
    EXPECT_EQ(differing_elements<double>(name, at::kDouble), 0) << name << " float64";
  }
}

TEST(Exact, ListHasNoNameTwiceAndNoCertifiedOne) {
  const auto& all = exact_operators();
  for (std::size_t i = 1; i < all.size(); ++i) EXPECT_NE(all[i - 1].name, all[i].name);
  for (const ExactOperator& op : all) EXPECT_FALSE(is_certified(op.name)) << op.name;
}

}  // namespace
}  // namespace isobit::aten
