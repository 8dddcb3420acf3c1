#include "aten/module_path.h"

#include <algorithm>
#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <vector>

#include <ATen/SequenceNumber.h>
#include <ATen/record_function.h>
#include <torch/csrc/autograd/function.h>

#include "aten/graph_check.h"
#include "aten/guard.h"

namespace isobit::aten {

struct ModulePlace {
  std::string path;  // with its own name
  std::map<std::string, std::unique_ptr<ModulePlace>, std::less<>> within;
};

namespace {

// From this sequence number on, the thread's nodes were recorded in `path`.
struct Entry {
  std::uint64_t first;
  const ModulePlace* place;
};

// Without begin_step the log would grow for ever: the older half goes.
constexpr std::size_t kMostEntries = 1 << 16;

// All of the process, never destroyed: threads and graphs may outlive main.
struct Known {
  std::mutex mutex;
  std::unordered_map<std::uint64_t, std::vector<Entry>> log_of_thread;  // ascending by `first`
  ModulePlace outside;
  // Where an object was entered from, and the place that it has there.
  struct Way {
    ModulePosition from;
    ModulePlace* place;
  };
  std::unordered_map<std::uint64_t, std::vector<Way>> ways_to;
  std::unordered_map<std::uint64_t, std::vector<std::uint64_t>> entered_from;  // an object: those that were
};
Known& known = *new Known;
std::atomic<std::int64_t> current_step = -1;
thread_local ModulePosition current = {&known.outside, 0};

// The lock is held.
void be_in(const ModulePosition& position) {
  current = position;
  const std::uint64_t first = at::sequence_number::peek();
  std::vector<Entry>& log = known.log_of_thread[at::RecordFunction::currentThreadId()];
  if (!log.empty() && log.back().first == first) {
    log.back().place = position.place;
    return;
  }
  if (log.size() == kMostEntries) log.erase(log.begin(), log.begin() + kMostEntries / 2);
  log.push_back({first, position.place});
}

// The lock is held.
ModulePlace* place_within(ModulePlace* around, std::string_view name) {
  const auto found = around->within.find(name);
  if (found != around->within.end()) return found->second.get();
  auto place = std::make_unique<ModulePlace>();
  place->path = around->path.empty() ? std::string(name) : around->path + "." + std::string(name);
  return around->within.emplace(name, std::move(place)).first->second.get();
}

std::string path_of(const torch::autograd::Node& node) {
  const std::lock_guard lock(known.mutex);
  const auto found = known.log_of_thread.find(node.thread_id());
  if (found == known.log_of_thread.end()) return {};
  const std::vector<Entry>& log = found->second;
  const auto after = std::upper_bound(log.begin(), log.end(), node.sequence_nr(),
                                      [](std::uint64_t number, const Entry& entry) { return number < entry.first; });
  return after == log.begin() ? std::string() : std::prev(after)->place->path;
}

}  // namespace

ModulePosition enter_module(std::string_view name) {
  graph_check::observe();
  const ModulePosition around = current;
  const std::lock_guard lock(known.mutex);
  be_in({place_within(around.place, name), 0});
  return around;
}

void leave_module(const ModulePosition& around) {
  const std::lock_guard lock(known.mutex);
  be_in(around);
}

bool enter_known_module(std::uint64_t module, ModulePosition& around) {
  graph_check::observe();
  const std::lock_guard lock(known.mutex);
  const auto found = known.ways_to.find(module);
  if (found == known.ways_to.end()) return false;
  for (const Known::Way& way : found->second) {
    if (way.from.place != current.place || way.from.object != current.object) continue;
    around = current;
    be_in({way.place, module});
    return true;
  }
  return false;
}

ModulePosition enter_new_module(std::uint64_t module, std::string_view name) {
  const ModulePosition around = current;
  const std::lock_guard lock(known.mutex);
  ModulePlace* const place = place_within(around.place, name);
  known.ways_to[module].push_back({around, place});
  if (around.object != 0) known.entered_from[around.object].push_back(module);
  be_in({place, module});
  return around;
}

void forget_module(std::uint64_t module) {
  const std::lock_guard lock(known.mutex);
  if (const auto ways = known.ways_to.extract(module)) {
    for (const Known::Way& way : ways.mapped()) {
      const auto others = known.entered_from.find(way.from.object);
      if (others != known.entered_from.end()) std::erase(others->second, module);
    }
  }
  if (const auto left = known.entered_from.extract(module)) {
    for (const std::uint64_t within : left.mapped()) {
      const auto found = known.ways_to.find(within);
      if (found != known.ways_to.end())
        std::erase_if(found->second, [&](const Known::Way& way) { return way.from.object == module; });
    }
  }
}

void begin_step(std::int64_t step) {
  if (step >= 0) check_kernels_in_turn();
  current_step = step;
  const std::lock_guard lock(known.mutex);
  known.log_of_thread.erase(at::RecordFunction::currentThreadId());
}

std::string current_module() {
  const auto node = torch::autograd::get_current_node();
  return node ? path_of(*node) : current.place->path;
}

std::string current_place() {
  const auto node = torch::autograd::get_current_node();
  const std::string module = current_module();
  const std::int64_t step = current_step;
  const std::string counted = step >= 0 ? "step " + std::to_string(step) : std::string();
  if (module.empty()) {
    if (!node) return counted;
    return "backward of " + node->name() + (counted.empty() ? "" : " (" + counted + ")");
  }
  std::string place = module + " (" + counted + (counted.empty() ? "" : ", ");
  return place + (node ? "backward of " + node->name() : "forward") + ")";
}

}  // namespace isobit::aten
