// The emulated device, as tests steer it (emulated_device.h runs it).
#pragma once

#include <stdexcept>
#include <string>
#include <vector>

#include "kernels/device.h"

namespace isobit::kernels::emulated {

class EmulationError : public std::logic_error {
 public:
  using std::logic_error::logic_error;
};

// In which order the threads of a block, and the blocks, run between waits.
enum class ThreadOrder { ascending, descending, shuffled };
void set_thread_order(ThreadOrder order);

// A place in the source where threads wait: "matmul.cu:57".
using Site = std::string;
// The places met since the last call, in the order of first meeting.
[[nodiscard]] std::vector<Site> take_sites();
// Waits at this place are left out from now on; "": none.
void omit(const Site& site);

// Device memory is the host's; scratch starts as NaN, and what is read or written beyond its end (to 16 bytes) ends the
// process.
[[nodiscard]] const DeviceBackend& backend();

// Kernel calls go to the emulated device, in the given order of threads.
class EmulatedScope {
 public:
  explicit EmulatedScope(ThreadOrder order) : scope_((set_device_backend(&backend()), nullptr)) {
    set_thread_order(order);
  }

 private:
  DeviceScope scope_;
};

}  // namespace isobit::kernels::emulated
