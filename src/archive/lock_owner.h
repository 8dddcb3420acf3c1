// Who holds a lock, and what this process can know of him. Reads /proc; no state; thread-safe.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

namespace isobit::archive {

struct LockOwner {
  std::string host, machine, boot;  // names of the machine, and of its boot
  std::string processes, time;      // namespaces
  long pid = 0;
  std::string started;  // clock ticks since boot, "" where /proc does not show this namespace
  // Of a scheduler; empty without one.
  std::string cluster, job;
  std::int64_t restart = 0;  // how often the scheduler started the job again
  std::uint64_t generation = 0;
  std::string token;  // tells two locks of one process apart
};

// Without generation and token.
[[nodiscard]] LockOwner this_process();

// The job that this process belongs to, and how often its writer has changed, in place of what a scheduler's variables
// say: for the workers of a job, of which another one writes where the first is gone (src/scale).
struct Job {
  std::string cluster, name;
  std::int64_t restart = 0;
};
void set_job(const Job& job);
// Of the scheduler's variables; empty names without one.
[[nodiscard]] Job scheduled_job();

[[nodiscard]] std::string format_owner(const LockOwner& owner);
// Nothing for a text that no lock holds; locks of earlier versions have no job and no generation.
[[nodiscard]] std::optional<LockOwner> parse_owner(const std::string& text);

enum class Life { alive, gone, unknown };
struct Judgement {
  Life life;
  std::string why;  // it is unknown
};
// Of `owner`, whose lock lies in `folder`, by the process `self`, which is this one. Gone only where that is certain.
[[nodiscard]] Judgement judge(const LockOwner& owner, const LockOwner& self, const std::filesystem::path& folder);

// Whether `self` is a later start of the scheduler's job that `owner` belonged to, which the scheduler has then ended.
[[nodiscard]] bool is_later_restart(const LockOwner& self, const LockOwner& owner);

}  // namespace isobit::archive
