// Peak memory of a few training steps, each side in a process of its own.
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <exception>
#include <functional>
#include <system_error>

#include "bench/bench.h"
#include "bench/workload.h"

namespace isobit::bench {
namespace {

constexpr int kSteps = 4;

// ru_maxrss of a forked child that runs `work`, in MiB. To be called before this process starts threads.
double peak_mib(const std::function<void()>& work) {
  int ends[2];
  if (pipe(ends) != 0) throw std::system_error(errno, std::generic_category(), "pipe");
  const pid_t child = fork();
  if (child < 0) throw std::system_error(errno, std::generic_category(), "fork");
  if (child == 0) {
    int code = 0;
    try {
      work();
    } catch (const std::exception& error) {
      std::fprintf(stderr, "isobit: %s\n", error.what());
      code = 1;
    }
    rusage usage{};
    getrusage(RUSAGE_SELF, &usage);
    const double mib = static_cast<double>(usage.ru_maxrss) / 1024;
    if (write(ends[1], &mib, sizeof mib) != sizeof mib) code = 1;
    _exit(code);
  }
  close(ends[1]);
  double mib = 0;
  const bool complete = read(ends[0], &mib, sizeof mib) == sizeof mib;
  close(ends[0]);
  int status = 0;
  waitpid(child, &status, 0);
  if (!complete || status != 0) throw std::runtime_error("one side of the benchmark failed");
  return mib;
}

}  // namespace

std::vector<MemoryRow> bench_memory(const BenchOptions& options) {
  std::vector<MemoryRow> rows;
  for (const std::string& name : options.models) {
    const Workload work = workload(name);
    for_each_setting(options, [&](int threads, const std::string& isa) {
      MemoryRow row{name, threads, isa, 0, 0};
      row.stock_mib = peak_mib([&] {
        on_stock(threads, [&] {
          BenchSide side(work, false);
          for (int i = 0; i < kSteps; ++i) side.stock_step();
          return 0.0;
        });
      });
      row.isobit_mib = peak_mib([&] {
        on_isobit(threads, [&] {
          BenchSide side(work, false);
          for (int i = 0; i < kSteps; ++i) side.isobit_step();
          return 0.0;
        });
      });
      rows.push_back(row);
    });
  }
  return rows;
}

}  // namespace isobit::bench
