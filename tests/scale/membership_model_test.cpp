// All orders of events in small jobs over the real Membership: every interleaving of requests, with a bounded number of
// crashes, failed exchanges, workers that are dropped while they go on, joiners and wishes to stop (model_job.h).
//
// Promised in every state: some event that needs no bad luck is possible until the job is over; a step is committed
// only with each of its grains once, in whatever members its exchange succeeds; an evaluation has each part once, of
// its own step; no two writers of the record have one number, and no step is forgotten that the record lacks; groups
// are formed only where something happened; no request gets two replies; no grain of the next step is handed out while
// one is left; whoever wants to join waits for the step under way alone; where nobody is left who can write the record,
// the job ends. ISOBIT_MODEL_STATES=N: the larger jobs too, up to N states each (memory: about 60 bytes a state).
#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <unordered_set>

#include "scale/model_job.h"

namespace isobit::scale {
namespace {

const Scenario kScenarios[] = {
    {.name = "undisturbed", .workers = 2, .grains = 4, .steps = 2},
    {.name = "undisturbed, three", .workers = 3, .grains = 3, .steps = 2},
    {.name = "evaluation", .workers = 2, .grains = 2, .steps = 2, .evaluates = true},
    {.name = "crash", .workers = 3, .grains = 2, .steps = 2, .crashes = 1},
    {.name = "crash and replacement", .workers = 2, .grains = 2, .steps = 2, .crashes = 1, .joins = 1},
    {.name = "crash while evaluating", .workers = 2, .grains = 2, .steps = 2, .evaluates = true, .crashes = 1},
    {.name = "two exchanges lost", .workers = 2, .grains = 3, .steps = 2, .losses = 2},
    {.name = "dropped, goes on", .workers = 2, .grains = 2, .steps = 2, .cuts = 1},
    {.name = "dropped while evaluating", .workers = 2, .grains = 2, .steps = 2, .evaluates = true, .cuts = 1},
    {.name = "joiner", .workers = 2, .grains = 3, .steps = 2, .joins = 1},
    {.name = "joiner and stop", .workers = 2, .grains = 2, .steps = 2, .evaluates = true, .joins = 1, .stops = 1},
    {.name = "crash and stop", .workers = 2, .grains = 2, .steps = 3, .crashes = 1, .stops = 1},
    {.name = "crash, dropped", .workers = 2, .grains = 2, .steps = 2, .crashes = 1, .cuts = 1},
    {.name = "nobody can record", .workers = 2, .grains = 2, .steps = 2, .crashes = 1, .readers = 1},
    {.name = "batches", .workers = 2, .grains = 8, .steps = 1, .batch = 3},
    {.name = "batches, crash", .workers = 2, .grains = 4, .steps = 2, .batch = 2, .crashes = 1},
    {.name = "batches, dropped", .workers = 2, .grains = 8, .steps = 1, .batch = 2, .cuts = 1},
    {.name = "batches, lost", .workers = 2, .grains = 8, .steps = 1, .batch = 2, .losses = 1},
    {.name = "batches, joiner", .workers = 1, .grains = 4, .steps = 2, .batch = 4, .joins = 1},
    {.name = "one comes who can record", .workers = 2, .grains = 2, .steps = 2, .crashes = 1, .joins = 1, .readers = 1},
};

// In further jobs, with more of everything.
const Scenario kLarge[] = {
    {.name = "two, batches, lost", .workers = 2, .grains = 8, .steps = 2, .batch = 2, .losses = 1},
    {.name = "two, replacement", .workers = 2, .grains = 2, .steps = 2, .evaluates = true, .crashes = 1, .joins = 1},
    {.name = "two, joiner, stop", .workers = 2, .grains = 2, .steps = 3, .evaluates = true, .joins = 1, .stops = 1},
    {.name = "three, evaluation", .workers = 3, .grains = 4, .steps = 2, .evaluates = true},
    {.name = "three, crash", .workers = 3, .grains = 4, .steps = 2, .crashes = 1, .joins = 1},
    {.name = "three, lost, dropped", .workers = 3, .grains = 3, .steps = 3, .losses = 1, .cuts = 1},
    {.name = "three, crashes", .workers = 3, .grains = 2, .steps = 2, .evaluates = true, .crashes = 2, .joins = 2},
    {.name = "three, stop",
     .workers = 3,
     .grains = 2,
     .steps = 3,
     .evaluates = true,
     .losses = 1,
     .joins = 1,
     .stops = 1},
};

class Enumeration {
 public:
  explicit Enumeration(std::size_t most) : most_(most) {}

  // Depth first. False: more than `most` states.
  bool run(const Scenario& scenario) {
    try {
      visit(World(scenario));
    } catch (const Violation& violation) {
      fail(violation.what());
    } catch (const WireError& error) {
      fail(std::string("the host refuses a worker of its own: ") + error.what());
    }
    return states_.size() < most_;
  }
  [[nodiscard]] std::size_t states() const { return states_.size(); }

 private:
  struct Hash {
    std::uint64_t a, b;
    bool operator==(const Hash&) const = default;
  };
  struct First {
    std::size_t operator()(const Hash& hash) const { return hash.a; }
  };
  static Hash hash_of(const std::string& text) {  // FNV-1a, twice
    Hash hash{0xcbf29ce484222325u, 0x9e3779b97f4a7c15u};
    for (const char c : text) {
      hash.a = (hash.a ^ static_cast<std::uint8_t>(c)) * 0x100000001b3u;
      hash.b = (hash.b ^ static_cast<std::uint8_t>(c)) * 0x100000001b5u + (hash.b >> 29);
    }
    return hash;
  }

  void fail(const std::string& what) {
    if (failed_) return;
    failed_ = true;
    std::string path;
    for (const World::Event& event : path_) path += event.text() + "\n";
    ADD_FAILURE() << what << ", after\n" << path;
  }

  void visit(const World& world) {
    if (failed_ || states_.size() >= most_ || !states_.insert(hash_of(world.digest())).second) return;
    if (world.over()) return world.check_end();
    const std::vector<World::Event> events = world.events();
    bool possible = false;
    for (const World::Event& event : events) possible = possible || event.kind <= World::Event::Kind::give_up;
    if (!possible) throw Violation("nothing can happen any more");
    for (const World::Event& event : events) {
      path_.push_back(event);
      World next = world;
      next.happen(event);
      visit(next);
      if (failed_) return;
      path_.pop_back();
    }
  }

  std::size_t most_;
  std::unordered_set<Hash, First> states_;
  std::vector<World::Event> path_;
  bool failed_ = false;
};

class MembershipModel : public testing::TestWithParam<Scenario> {
 protected:
  // Whether all states were gone through.
  static bool enumerate(std::size_t most) {
    Enumeration enumeration(most);
    const bool whole = enumeration.run(GetParam());
    std::printf("%-26s %9zu states%s\n", GetParam().name, enumeration.states(), whole ? "" : " (cut off)");
    return whole;
  }
};
class LargerMembershipModel : public MembershipModel {};

TEST_P(MembershipModel, EveryOrderOfEvents) { EXPECT_TRUE(enumerate(std::size_t{1} << 21)); }

TEST_P(LargerMembershipModel, EveryOrderOfEvents) {
  const char* most = std::getenv("ISOBIT_MODEL_STATES");
  if (most == nullptr) GTEST_SKIP() << "ISOBIT_MODEL_STATES is not set";
  (void)enumerate(std::strtoull(most, nullptr, 10));
}

std::string name_of(const testing::TestParamInfo<Scenario>& info) {
  std::string name;
  for (const char* at = info.param.name; *at != 0; ++at)
    name += *at == ' ' ? "_" : *at == ',' ? "" : std::string(1, *at);
  return name;
}

INSTANTIATE_TEST_SUITE_P(Small, MembershipModel, testing::ValuesIn(kScenarios), name_of);
INSTANTIATE_TEST_SUITE_P(Large, LargerMembershipModel, testing::ValuesIn(kLarge), name_of);

}  // namespace
}  // namespace isobit::scale
