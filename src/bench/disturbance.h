// A process that uses a share of one core while something else is measured: what a shared machine does.
#pragma once

#include <sys/types.h>

namespace isobit::bench {

// Pinned to the first CPU that this process may use. Ends with this object, and with this process however it ends.
class Disturbance {
 public:
  // percent: of the core's time, 1 to 99, taken in periods of 20 ms; 0: no such process. Throws std::system_error.
  explicit Disturbance(int percent);
  ~Disturbance();
  Disturbance(const Disturbance&) = delete;
  Disturbance& operator=(const Disturbance&) = delete;

 private:
  pid_t child_ = -1;
};

}  // namespace isobit::bench
