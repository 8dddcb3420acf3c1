// The worker processes of this machine: started, watched, started again.
//
// Each is a process group of its own, ends with this process, prints nothing; what it says on stderr is kept. One
// thread, which must live as long as the object.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

namespace isobit::jobs {

class WorkerProcesses {
 public:
  // `words`: what this program is called with; `environment`: "NAME=value" added to this process's.
  WorkerProcesses(std::vector<std::string> words, std::vector<std::string> environment);
  ~WorkerProcesses();  // ends those that run
  WorkerProcesses(const WorkerProcesses&) = delete;
  WorkerProcesses& operator=(const WorkerProcesses&) = delete;

  // UserError where the system starts none.
  void start();

  struct Ended {
    pid_t pid = 0;
    int status = 0;      // as waitpid gives it
    std::string said;    // the end of what it wrote on stderr
    double seconds = 0;  // that it lived
  };
  // Those that ended since the last call.
  [[nodiscard]] std::vector<Ended> collect();
  [[nodiscard]] std::size_t running() const { return running_.size(); }
  [[nodiscard]] std::vector<pid_t> pids() const;

 private:
  struct Process {
    pid_t pid = 0;
    int stderr_file = -1;
    std::chrono::steady_clock::time_point start;
  };
  std::vector<std::string> words_, environment_;
  std::vector<Process> running_;
};

// "exit code 1", "signal 9"
[[nodiscard]] std::string how_it_ended(const WorkerProcesses::Ended& ended);

}  // namespace isobit::jobs
