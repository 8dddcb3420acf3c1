#include "aten/module_path.h"

#include <algorithm>
#include <atomic>
#include <mutex>
#include <unordered_map>
#include <vector>

#include <ATen/SequenceNumber.h>
#include <ATen/record_function.h>
#include <torch/csrc/autograd/function.h>

#include "aten/graph_check.h"
#include "aten/guard.h"

namespace isobit::aten {
namespace {

// From this sequence number on, the thread's nodes were recorded in `path`.
struct Entry {
  std::uint64_t first;
  std::string path;
};

// Without begin_step the log would grow for ever: the older half goes.
constexpr std::size_t kMostEntries = 1 << 16;

std::mutex mutex;
std::unordered_map<std::uint64_t, std::vector<Entry>> log_of_thread;  // ascending by `first`
std::atomic<std::int64_t> current_step = -1;
thread_local std::string path;

void log_path() {
  const std::uint64_t first = at::sequence_number::peek();
  const std::lock_guard lock(mutex);
  std::vector<Entry>& log = log_of_thread[at::RecordFunction::currentThreadId()];
  if (!log.empty() && log.back().first == first) {
    log.back().path = path;
    return;
  }
  if (log.size() == kMostEntries) log.erase(log.begin(), log.begin() + kMostEntries / 2);
  log.push_back({first, path});
}

std::string path_of(const torch::autograd::Node& node) {
  const std::lock_guard lock(mutex);
  const auto found = log_of_thread.find(node.thread_id());
  if (found == log_of_thread.end()) return {};
  const std::vector<Entry>& log = found->second;
  const auto after = std::upper_bound(log.begin(), log.end(), node.sequence_nr(),
                                      [](std::uint64_t number, const Entry& entry) { return number < entry.first; });
  return after == log.begin() ? std::string() : std::prev(after)->path;
}

}  // namespace

std::size_t enter_module(std::string_view name) {
  graph_check::observe();
  const std::size_t parent = path.size();
  if (!path.empty()) path += '.';
  path += name;
  log_path();
  return parent;
}

void leave_module(std::size_t entered) {
  path.resize(entered);
  log_path();
}

void begin_step(std::int64_t step) {
  constexpr std::int64_t kEvery = 16;  // so that the check is lost in the time of the steps
  if (step < 0 || step % kEvery == 1) check_kernels();
  current_step = step;
  const std::lock_guard lock(mutex);
  log_of_thread.erase(at::RecordFunction::currentThreadId());
}

std::string current_module() {
  const auto node = torch::autograd::get_current_node();
  return node ? path_of(*node) : path;
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
