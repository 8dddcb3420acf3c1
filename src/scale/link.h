// A worker's connection to the host of its job. A thread says every second that the worker is alive.
//
// Errors are LinkLost where the host is gone, silent, or has dropped this worker (it was stopped, or its cable pulled);
// UserError where it refuses. One caller at a time; close() from any thread.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>

#include "scale/channel.h"
#include "scale/messages.h"

namespace isobit::scale {

class LinkLost : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

class Link {
 public:
  struct Options {
    Address host;
    std::string key;
    Join about;
    int patience = 30;  // seconds in which somebody must answer
    int silence = 10;   // seconds after which what is not acknowledged breaks the connection
  };
  explicit Link(const Options& options);
  ~Link();
  Link(const Link&) = delete;
  Link& operator=(const Link&) = delete;

  [[nodiscard]] std::int64_t id() const { return id_; }
  [[nodiscard]] const std::string& job() const { return job_; }  // as the host describes it
  // This machine's address on the way to the host.
  [[nodiscard]] const std::string& own_address() const { return own_address_; }

  // Waits for the reply as long as it takes.
  [[nodiscard]] Reply ask(const Request& request);
  // The same, of a kind that is expected: WireError for another one.
  template <class Kind>
  [[nodiscard]] Kind ask_for(const Request& request) {
    Reply reply = ask(request);
    if (auto* expected = std::get_if<Kind>(&reply)) return std::move(*expected);
    throw WireError("an answer to another question");
  }
  void count_grain() { ++grains_; }

 private:
  void connect(const Options& options);
  void write_all();
  void read_some(int milliseconds);
  [[nodiscard]] std::optional<Bytes> next_frame();
  void keep_alive();

  int descriptor_ = -1;
  std::int64_t id_ = 0;
  std::string job_, own_address_;
  std::mutex mutex_;  // of the frames
  Frames frames_;
  std::atomic<std::int64_t> grains_ = 0;
  std::condition_variable changed_;
  bool ending_ = false, broken_ = false;
  std::thread thread_;
};

}  // namespace isobit::scale
