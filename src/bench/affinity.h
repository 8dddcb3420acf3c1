// One CPU for the calling thread.
#pragma once

namespace isobit::bench {

// Keeps the calling thread on the index-th of the CPUs that it may use, counted round; where the system refuses, it
// stays where it is. Safe in a fork of a process with threads.
void pin_to_allowed_cpu(int index);

}  // namespace isobit::bench
