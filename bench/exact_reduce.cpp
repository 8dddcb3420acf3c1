// Exact sums of two worker processes against Gloo's all-reduce of float32, interleaved, over loopback.
//
//   exact_reduce [ROUNDS] [PIECE]     (15 rounds; elements that travel at once)
//
// For 1, 10 and 100 MB of gradients: one grain a worker (float32 travels) and four (two int64 digits each). Prints the
// medians of both, the median of the rounds' ratios with its interquartile range. Both sides share this machine's cores
// with each other and with whatever else runs.
#include <ATen/Parallel.h>
#include <ATen/ops/full.h>
#include <ATen/ops/zeros.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <memory>

#include "bench/timing.h"
#include "kernels/threads.h"
#include "scale/exact_reduce.h"
#include "scale/host.h"

namespace {

using namespace isobit;

constexpr int kGrains = 4;  // of a worker with several

grains::GrainSums sums_of(const std::vector<trace::NamedTensor>& parameters, int first, int count, int all) {
  grains::GrainSums sums(parameters, at::kCPU, 1, all);
  for (int i = 0; i < count; ++i) {
    grains::GrainResult result;
    result.grain = first + i;
    result.gradients.push_back(at::full(parameters[0].tensor.sizes(), 0.001f * static_cast<float>(first + i + 1)));
    sums.add(std::move(result));
  }
  return sums;
}

void bench(scale::Exchange& exchange, std::int64_t megabytes, int grains, int rounds, std::int64_t piece) {
  const std::int64_t n = megabytes * 250000;
  const std::vector<trace::NamedTensor> parameters{{"p", at::zeros({n})}};
  const int rank = static_cast<int>(exchange.rank());
  const grains::GrainSums sums = sums_of(parameters, rank * grains, grains, 2 * grains);
  scale::Reduce agreed;
  agreed.counts = {grains, grains};
  agreed.packed = {0, 0};
  agreed.tops = scale::limb_bytes(sums.top_limbs());
  at::Tensor values = at::full({n}, 0.001f);
  scale::ReduceMemory memory;  // as a job keeps it
  std::vector<double> stock, exact, ratios;
  for (int round = -1; round < rounds; ++round) {
    const auto gloo = [&] {
      const std::span<float> all(values.mutable_data_ptr<float>(), static_cast<std::size_t>(n));
      return bench::milliseconds([&] { scale::wait(exchange.all_reduce(all)); }, 1);
    };
    const auto ours = [&] {
      return bench::milliseconds(
          [&] { (void)scale::reduce_gradients(exchange, sums, parameters, agreed, memory, piece); }, 1);
    };
    values.fill_(0.001f);
    const bool first = round % 2 == 0;
    double a = first ? gloo() : 0;
    const double b = ours();
    if (!first) a = gloo();
    if (round < 0) continue;  // warms up
    stock.push_back(a), exact.push_back(b), ratios.push_back(b / a);
  }
  if (rank != 0) return;
  std::printf("%4lld MB  %d grain%s a worker  gloo %9.2f ms  exact %9.2f ms  ratio %5.2f  IQR %5.2f  (%d rounds)\n",
              static_cast<long long>(megabytes), grains, grains == 1 ? " " : "s", bench::quantile(stock, 0.5),
              bench::quantile(exact, 0.5), bench::quantile(ratios, 0.5),
              bench::quantile(ratios, 0.75) - bench::quantile(ratios, 0.25), rounds);
  std::fflush(stdout);
}

void work(int port, int rounds, std::int64_t piece) {
  const kernels::ThreadCountScope threads(1);
  at::set_num_threads(1);  // filling by OpenMP leaves threads that spin into what is measured next
  scale::Link::Options options;
  options.host = {"127.0.0.1", port};
  options.key = std::string(64, 'b');
  options.about = {"bench", "bench", "cpu"};
  scale::Link link(options);
  const auto formed = link.ask_for<scale::Formed>(scale::Regroup{0, {}, true});
  scale::Exchange exchange(link, formed.generation, formed.rank, formed.size);
  for (const std::int64_t megabytes : {1, 10, 100}) {
    for (const int grains : {1, kGrains}) bench(exchange, megabytes, grains, rounds, piece);
  }
}

}  // namespace

int main(int count, char** words) {
  const int rounds = count > 1 ? std::atoi(words[1]) : 15;
  const std::int64_t piece = count > 2 ? std::atoll(words[2]) : scale::kPiece;
  int channel[2];
  if (::pipe(channel) != 0) return 1;
  const pid_t child = ::fork();  // before there are threads
  if (child == 0) {
    int port = 0;
    if (::read(channel[0], &port, sizeof port) != sizeof port) return 1;
    work(port, rounds, piece);
    std::fflush(stdout);
    ::_exit(0);
  }
  scale::HostOptions options;
  options.key = std::string(64, 'b');
  options.identity = "bench";
  options.expected = 2;
  const scale::Host host(options);
  const int port = host.port();
  if (::write(channel[1], &port, sizeof port) != sizeof port) return 1;
  work(port, rounds, piece);
  int status = 0;
  ::waitpid(child, &status, 0);
  return status == 0 ? 0 : 1;
}
