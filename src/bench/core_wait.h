// How long a thread was ready to run while others had the cores: times taken meanwhile are not the machine's.
//
// By the kernel's own count (/proc/thread-self/schedstat). To be used by the thread that made it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace isobit::bench {

class CoreWait {
 public:
  CoreWait();  // from here on
  // Of the time in which this thread ran or could have run; nothing where the kernel does not count.
  [[nodiscard]] std::optional<double> share() const;

 private:
  struct Count {
    std::uint64_t ran = 0, waited = 0;  // ns
  };
  static std::optional<Count> count();

  std::optional<Count> start_;
};

// A line for whoever reads the times; "" below a twentieth.
[[nodiscard]] std::string wait_note(std::optional<double> share);

}  // namespace isobit::bench
