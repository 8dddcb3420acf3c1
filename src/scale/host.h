// The host of a job: the process that its workers ask, on a thread of its own. It computes nothing and needs no torch.
//
// Listens on the address it was given (loopback unless somebody names another), admits whoever has the key and the
// job's identity, drops workers whose connection broke or that were silent for `silence` seconds. If the host dies, the
// job's workers end; the run resumes from its newest checkpoint. Thread-safe.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "scale/membership.h"

namespace isobit::scale {

struct HostOptions {
  std::string address = "127.0.0.1";
  int port = 0;  // 0: any
  std::string key;
  std::string identity, job;  // membership.h
  std::int64_t expected = 1;  // workers of the first group; after `patience` seconds it begins with those who are there
  int patience = 60;          // and the job ends where, for so long, nobody is there who can write the record
  std::string folder;         // of the record, for that error
  int silence = 10;
};

struct HostView {
  std::vector<WorkerView> workers;
  std::int64_t generation = 0, steps_done = 0, granted = 0, granted_again = 0;
  std::optional<Failure> failure;
  bool recorded = false;
  std::vector<std::string> refused;  // why somebody was turned away, newest last
};

class Host {
 public:
  // UserError where it cannot listen.
  explicit Host(HostOptions options);
  ~Host();
  Host(const Host&) = delete;
  Host& operator=(const Host&) = delete;

  [[nodiscard]] int port() const;
  [[nodiscard]] HostView view() const;
  // The first group waits for so many workers at most.
  void expect(std::int64_t workers);
  // The step under way is the last one.
  void stop();
  // Whoever works is told so.
  void fail(const Failure& failure);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace isobit::scale
