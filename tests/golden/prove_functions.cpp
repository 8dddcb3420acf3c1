// Every elementary function for all 2^32 inputs (scripts/prove-functions).
//
//   prove_functions GOLDEN_FILE [--write] [--all] [NAME...]
//
// For each function: the fingerprint of all results, in order of the inputs' bit patterns, under every fast
// instruction set of this machine must equal the golden one; the slow implementations (the scalar reference,
// the lowered 16 lanes) are compared element by element on every 61st block of inputs, or with --all by
// fingerprint too, which takes minutes a function; the largest error against binary64, confirmed by MPFR at
// its place, must be at most 1.5 ulp. Exit status 0: all proven; 1: something differs. --write prints a new
// golden file, by the fastest implementation, instead.
#include <mpfr.h>

#include <bit>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "golden/elementary.h"
#include "kernels/isa.h"
#include "kernels/threads.h"

namespace isobit::golden {
namespace {

constexpr double kBound = 1.5;
constexpr std::uint64_t kBlock = 1 << 16;  // inputs computed at a time: they stay in the cache
constexpr std::uint64_t kBlocks = (1ull << 32) / kBlock;
constexpr std::uint64_t kSlowStride = 61;

using Block = std::vector<float>;

void fill_patterns(std::uint64_t block, Block& x) {
  const std::uint32_t first = static_cast<std::uint32_t>(block * kBlock);
  for (std::uint32_t i = 0; i < kBlock; ++i) x[i] = std::bit_cast<float>(first + i);
}

// work(block, worker) for every stride-th block, on all processors; the kernels run inline in each.
template <class Work>
void for_blocks(std::uint64_t stride, int workers, Work work) {
  std::vector<std::thread> threads;
  for (int worker = 0; worker < workers; ++worker) {
    threads.emplace_back([=] {
      for (std::uint64_t b = static_cast<std::uint64_t>(worker) * stride; b < kBlocks; b += stride * workers) {
        work(b, worker);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

struct alignas(64) Worker {  // one per thread, on cache lines of its own
  Block x = Block(kBlock), y = Block(kBlock), z = Block(kBlock);
  kernels::Fingerprint sums;
  double worst = 0.0;
  float where = 0.0f;
  std::uint64_t differences = 0;
};

std::string fingerprint_of_all(const Elementary& f, int workers) {
  std::vector<Worker> state(static_cast<std::size_t>(workers));
  for_blocks(1, workers, [&](std::uint64_t block, int worker) {
    Worker& w = state[static_cast<std::size_t>(worker)];
    fill_patterns(block, w.x);
    kernels::unary(f.op, w.x.data(), w.y.data(), kBlock);
    w.sums = merge(w.sums, kernels::element_sums(w.y.data(), static_cast<std::int64_t>(block * kBlock), kBlock));
  });
  kernels::Fingerprint all;
  for (const Worker& w : state) all = merge(all, w.sums);
  return to_hex(all);
}

std::uint32_t canonical(float y) { return std::isnan(y) ? 0x7fc00000u : std::bit_cast<std::uint32_t>(y); }

bool is_slow(kernels::Isa isa) { return isa == kernels::Isa::reference || isa == kernels::Isa::lanes16; }

// Elements in which a slow implementation differs from the fastest one, on every 61st block.
std::uint64_t differences_of(kernels::Isa slow, const Elementary& f, int workers) {
  std::vector<Block> fast(kBlocks / kSlowStride + 1);
  for_blocks(kSlowStride, workers, [&](std::uint64_t block, int) {
    Block x(kBlock), y(kBlock);
    fill_patterns(block, x);
    kernels::unary(f.op, x.data(), y.data(), kBlock);
    fast[block / kSlowStride] = std::move(y);
  });
  const kernels::IsaScope scope(slow);
  std::vector<Worker> state(static_cast<std::size_t>(workers));
  for_blocks(kSlowStride, workers, [&](std::uint64_t block, int worker) {
    Worker& w = state[static_cast<std::size_t>(worker)];
    fill_patterns(block, w.x);
    kernels::unary(f.op, w.x.data(), w.y.data(), kBlock);
    const Block& expected = fast[block / kSlowStride];
    for (std::uint64_t i = 0; i < kBlock; ++i) w.differences += canonical(w.y[i]) != canonical(expected[i]);
  });
  std::uint64_t differences = 0;
  for (const Worker& w : state) differences += w.differences;
  return differences;
}

// Largest error over all inputs; the negative half of a symmetric function is compared with the other bit for
// bit (a difference counts as an infinite error).
double largest_error(const Elementary& f, int workers, float* where) {
  std::vector<Worker> state(static_cast<std::size_t>(workers));
  for_blocks(1, workers, [&](std::uint64_t block, int worker) {
    Worker& w = state[static_cast<std::size_t>(worker)];
    const auto note = [&](double error, float x) {
      if (error > w.worst) w.worst = error, w.where = x;
    };
    fill_patterns(block, w.x);
    kernels::unary(f.op, w.x.data(), w.y.data(), kBlock);
    if (f.symmetry != Symmetry::none && block >= kBlocks / 2) {
      Block& mirrored = w.z;
      for (std::uint64_t i = 0; i < kBlock; ++i) mirrored[i] = -w.x[i];
      kernels::unary(f.op, mirrored.data(), mirrored.data(), kBlock);
      for (std::uint64_t i = 0; i < kBlock; ++i) {
        const float expected = f.symmetry == Symmetry::odd ? -mirrored[i] : mirrored[i];
        if (canonical(w.y[i]) != canonical(expected)) note(std::numeric_limits<double>::infinity(), w.x[i]);
      }
      return;
    }
    for (std::uint64_t i = 0; i < kBlock; ++i) {
      note(error_in_ulps(w.y[i], f.oracle(static_cast<double>(w.x[i]))), w.x[i]);
    }
  });
  double worst = 0.0;
  for (const Worker& w : state) {
    if (w.worst > worst) worst = w.worst, *where = w.where;
  }
  return worst;
}

// The error at one place, the exact value by MPFR.
double exact_error(const Elementary& f, float x) {
  float got;
  kernels::unary(f.op, &x, &got, 1);
  mpfr_t y;
  mpfr_init2(y, 120);
  mpfr_set_flt(y, x, MPFR_RNDN);
  using kernels::Unary;
  switch (f.op) {
    case Unary::exp: mpfr_exp(y, y, MPFR_RNDN); break;
    case Unary::expm1: mpfr_expm1(y, y, MPFR_RNDN); break;
    case Unary::log: mpfr_log(y, y, MPFR_RNDN); break;
    case Unary::log1p: mpfr_log1p(y, y, MPFR_RNDN); break;
    case Unary::tanh: mpfr_tanh(y, y, MPFR_RNDN); break;
    case Unary::erf: mpfr_erf(y, y, MPFR_RNDN); break;
    case Unary::sin: mpfr_sin(y, y, MPFR_RNDN); break;
    case Unary::cos: mpfr_cos(y, y, MPFR_RNDN); break;
    case Unary::sinpi: mpfr_sinpi(y, y, MPFR_RNDN); break;
    case Unary::cospi: mpfr_cospi(y, y, MPFR_RNDN); break;
    case Unary::rsqrt: mpfr_rec_sqrt(y, y, MPFR_RNDN); break;
    case Unary::sigmoid:
      mpfr_neg(y, y, MPFR_RNDN);
      mpfr_exp(y, y, MPFR_RNDN);
      mpfr_add_ui(y, y, 1, MPFR_RNDN);
      mpfr_ui_div(y, 1, y, MPFR_RNDN);
      break;
    case Unary::relu:  // exact, or made of the others: not in kElementary
    case Unary::silu:
    case Unary::gelu:
    case Unary::gelu_tanh:
    case Unary::square:
    case Unary::reciprocal:
    case Unary::sqrt: mpfr_set_nan(y); break;
  }
  const double error = error_in_ulps(got, mpfr_get_d(y, MPFR_RNDN));
  mpfr_clear(y);
  return error;
}

struct Options {
  const char* golden_file;
  bool write = false, all = false;
  std::vector<std::string> names = {};
};

// Whether every fast implementation gives the golden fingerprint for all inputs; appends their names to
// `isas`.
bool fingerprints_match(const Elementary& f, const Options& options, const std::string& golden, int workers,
                        std::string& isas) {
  bool match = true;
  const auto available = kernels::available_isas();
  for (const kernels::Isa isa : available) {
    if (is_slow(isa) && !options.all && available.size() > 1) continue;
    const kernels::IsaScope scope(isa);
    const std::string found = fingerprint_of_all(f, workers);
    const std::string isa_name(kernels::name(isa));
    if (found != golden) {
      match = false;
      std::fprintf(stderr, "%s under %s: %s, golden %s\n", f.name, isa_name.c_str(), found.c_str(), golden.c_str());
    }
    isas += ' ';
    isas += isa_name;
  }
  return match;
}

// Prints one line and says whether the function is proven.
bool prove(const Elementary& f, const Options& options, const std::map<std::string, std::string>& golden, int workers) {
  const auto start = std::chrono::steady_clock::now();
  const auto found = golden.find(f.name);
  std::string isas;
  bool proven = fingerprints_match(f, options, found == golden.end() ? "(none)" : found->second, workers, isas);
  for (const kernels::Isa isa : kernels::available_isas()) {
    if (!is_slow(isa)) continue;
    const std::uint64_t differences = differences_of(isa, f, workers);
    if (differences == 0) continue;
    proven = false;
    std::fprintf(stderr, "%s under %s differs in %llu elements\n", f.name, std::string(kernels::name(isa)).c_str(),
                 static_cast<unsigned long long>(differences));
  }
  float where = 0.0f;
  const double worst = largest_error(f, workers, &where);
  const double confirmed = exact_error(f, where);
  if (!(worst <= kBound) || !(std::fabs(worst - confirmed) <= 1e-5)) {
    proven = false;
    std::fprintf(stderr, "%s(%a): %.6f ulp, by MPFR %.6f\n", f.name, where, worst, confirmed);
  }
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  std::printf("%-8s %s  max %.4f ulp at %a; same bits:%s; %.0f s\n", f.name, proven ? "proven" : "FAILED", worst, where,
              isas.c_str(), seconds);
  std::fflush(stdout);
  return proven;
}

void write_golden(int workers) {
  std::printf("# Fingerprints of the results for all 2^32 inputs, and for a sample (scripts/prove-functions).\n");
  for (const Elementary& f : kElementary) {
    std::printf("%s %s\n", f.name, fingerprint_of_all(f, workers).c_str());
    std::printf("%s.sample %s\n", f.name, to_hex(fingerprint_of_sample(f.op)).c_str());
    std::fflush(stdout);
  }
}

int run(const Options& options) {
  const int workers = kernels::available_cpus();
  kernels::set_thread_count(1);
  if (options.write) {
    write_golden(workers);
    return 0;
  }
  const auto golden = read_golden(options.golden_file);
  bool proven = true;
  for (const Elementary& f : kElementary) {
    bool wanted = options.names.empty();
    for (const std::string& name : options.names) wanted = wanted || name == f.name;
    if (wanted && !prove(f, options, golden, workers)) proven = false;
  }
  return proven ? 0 : 1;
}

}  // namespace
}  // namespace isobit::golden

int main(int count, char** arguments) {
  if (count < 2) {
    std::fprintf(stderr, "usage: prove_functions GOLDEN_FILE [--write] [--all] [NAME...]\n");
    return 2;
  }
  isobit::golden::Options options{arguments[1]};
  for (int i = 2; i < count; ++i) {
    const std::string argument = arguments[i];
    if (argument == "--write")
      options.write = true;
    else if (argument == "--all")
      options.all = true;
    else
      options.names.push_back(argument);
  }
  return isobit::golden::run(options);
}
