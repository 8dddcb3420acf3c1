// Every place of the CUDA kernels where threads wait for each other is needed: with its waits left out, a
// sweep over the family's shapes gives other bits than the reference, or the emulation sees the mistake. And
// every such place in the sources is met by a sweep.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <regex>
#include <set>

#include "contract/platform.h"
#include "kernels/batch_norm.h"
#include "kernels/conv2d.h"
#include "kernels/exact_products.h"
#include "kernels/exact_sum.h"
#include "kernels/product_plans.h"
#include "kernels/fingerprint.h"
#include "kernels/indexed.h"
#include "kernels/loss.h"
#include "kernels/matmul.h"
#include "kernels/pool3d.h"
#include "kernels/reduce.h"
#include "kernels/scan.h"
#include "kernels/softmax.h"
#include "kernels/sort.h"
#include "kernels/sweep.h"

namespace isobit::kernels::emulated {
namespace {

using namespace kernels::testing;
using Floats = std::vector<float>;

constexpr ThreadOrder kOrders[] = {ThreadOrder::ascending, ThreadOrder::descending, ThreadOrder::shuffled};

// What a sweep computes: integers, and floats by their bits, every NaN the same.
class Results {
 public:
  void add(std::int64_t word) { words_.push_back(word); }
  void add(const Floats& values) {
    for (const float v : values) add(std::isnan(v) ? -1 : std::int64_t{contract::bits_of(v)});
  }
  friend bool operator==(const Results&, const Results&) = default;

 private:
  std::vector<std::int64_t> words_;
};

// ---- the families' sweeps: few shapes, every kernel that waits -----------------------------------------

void add_product(Results& r, std::int64_t batch, std::int64_t m, std::int64_t n, std::int64_t k) {
  const Floats a = wide_floats(batch * m * k, 1), b = wide_floats(k * n, 2);
  Floats c(static_cast<std::size_t>(batch * m * n), -7.0f);
  MatmulProblem p;
  p.batch = batch, p.m = m, p.n = n, p.k = k;
  p.a = {a.data(), m * k, k, 1}, p.b = {b.data(), 0, n, 1};
  p.c = c.data(), p.c_batch_stride = m * n, p.c_row_stride = n;
  matmul(p);
  r.add(c);
}

// The second has several tiles for a block of the two multiprocessors.
Results products() {
  Results r;
  add_product(r, 1, 37, 20, 70);
  add_product(r, 24, 9, 9, 530);
  return r;
}

void add_exact_product(Results& r, std::int64_t m, std::int64_t n, std::int64_t k) {
  const Floats a = normal_floats(m * k, 1), b = normal_floats(k * n, 2);
  Floats c(m * n, -7.0f);
  MatmulProblem p;
  p.m = m, p.n = n, p.k = k;
  p.a = {a.data(), 0, k, 1}, p.b = {b.data(), 0, n, 1};
  p.c = c.data(), p.c_row_stride = n;
  exact3_matmul(p);
  r.add(c);
}

// Every block, with columns in both halves of it; more stages than the ring has, and ranges of terms that meet in
// atomic sums.
Results exact_products() {
  Results r;
  for (const int block : {0, 1, 2}) {
    force_product_plan({block, 1});
    add_exact_product(r, 17, 70, 40);
  }
  add_exact_product(r, 40, 50, 300);
  force_product_plan({2, 2});
  add_exact_product(r, 40, 50, 100);
  force_product_plan({});
  return r;
}

// By chunks, unfolded, and word by word.
Results exact_convolutions() {
  Results r;
  const auto add = [&r](const Conv2dShape& s) {
    const Floats x = normal_floats(s.n * s.ci * s.h * s.w, 1),
                 dy = normal_floats(s.n * s.co * s.out_h() * s.out_w(), 3);
    const Floats weight = normal_floats(s.co * s.ci / s.groups * s.kh * s.kw, 2);
    Floats y(dy.size()), dx(x.size()), dweight(weight.size());
    exact3_conv2d_forward(s, x.data(), weight.data(), nullptr, y.data());
    exact3_conv2d_input_gradient(s, dy.data(), weight.data(), dx.data());
    exact3_conv2d_weight_gradient(s, x.data(), dy.data(), dweight.data());
    r.add(y), r.add(dx), r.add(dweight);
  };
  add({16, 16, 3, 4, 16, 3, 3, 1, 1, 1, 1});
  add({2, 3, 6, 6, 4, 3, 3, 2, 2, 1, 1});
  add({2, 4, 6, 6, 40, 3, 3, 1, 1, 1, 1, 1, 1, 2});
  return r;
}

Results convolutions() {
  Results r;
  const Conv2dShape s{1, 2, 5, 5, 3, 3, 3, 2, 2, 1, 1};
  const Floats x = wide_floats(50, 1), weight = wide_floats(54, 2), dy = wide_floats(27, 3);
  Floats y(27), dx(50), dweight(54);
  conv2d_forward(s, x.data(), weight.data(), nullptr, y.data());
  conv2d_input_gradient(s, dy.data(), weight.data(), dx.data());
  conv2d_weight_gradient(s, x.data(), dy.data(), dweight.data());
  r.add(y), r.add(dx), r.add(dweight);
  // Several tiles for a block, of more than a leaf each.
  const Conv2dShape deep{4, 60, 18, 20, 10, 3, 3, 1, 1, 1, 1};
  const Floats image = wide_floats(4 * 60 * 18 * 20, 4), filters = wide_floats(10 * 60 * 9, 5);
  Floats out(4 * 10 * 18 * 20);
  force_product_plan({2, 1 << 21});
  conv2d_forward(deep, image.data(), filters.data(), nullptr, out.data());
  force_product_plan({});
  r.add(out);
  return r;
}

// [rows, columns], the columns or the rows reduced.
ReduceShape over(std::int64_t rows, std::int64_t columns, bool rows_reduced) {
  ReduceShape s;
  s.kept_rank = s.reduced_rank = 1;
  s.kept_size[0] = rows_reduced ? columns : rows, s.kept_stride[0] = rows_reduced ? 1 : columns;
  s.reduced_size[0] = rows_reduced ? rows : columns, s.reduced_stride[0] = rows_reduced ? columns : 1;
  return s;
}

Results reductions() {
  Results r;
  const ReduceShape shapes[] = {
      over(3, 700, false),          // a warp an output
      over(2, 6 * 512 + 9, false),  // a block an output
      over(1, 70 * 512, false),     // blocks, and one block over their parts
      over(600, 40, true),          // 32 outputs a block
      over(33 * 512 + 1, 9, true),  // 8 outputs a block; more leaves than a warp has threads
  };
  for (const ReduceShape& s : shapes) {
    const Floats x = wide_floats(s.kept_count() * s.reduced_count(), 3);
    using Reduction = void (*)(const ReduceShape&, const float*, float*);
    for (const Reduction kernel :
         {Reduction(&sum), Reduction(&mean), Reduction(&norm2), Reduction(&maximum), Reduction(&minimum)}) {
      Floats out(static_cast<std::size_t>(s.kept_count()), -7.0f);
      kernel(s, x.data(), out.data());
      r.add(out);
    }
    std::vector<std::int64_t> places(static_cast<std::size_t>(s.kept_count()), -7);
    argmax(s, x.data(), places.data());
    for (const std::int64_t place : places) r.add(place);
  }
  return r;
}

Results batch_norms() {
  Results r;
  for (const ChannelShape& s : {ChannelShape{2, 3, 700}, {5, 2, 700}, {600, 40, 1}, {700, 9, 1}}) {
    const std::int64_t n = s.n * s.c * s.inner;
    const Floats x = wide_floats(n, 1), dy = wide_floats(n, 2);
    Floats y(x.size()), dx(x.size()), mean(static_cast<std::size_t>(s.c)), invstd = mean, dweight = mean, dbias = mean;
    BatchNormForward forward;
    forward.shape = s, forward.x = x.data(), forward.y = y.data();
    forward.saved_mean = mean.data(), forward.saved_invstd = invstd.data();
    batch_norm_training(forward);
    BatchNormBackward backward;
    backward.shape = s, backward.x = x.data(), backward.dy = dy.data();
    backward.mean = mean.data(), backward.invstd = invstd.data();
    backward.dx = dx.data(), backward.dweight = dweight.data(), backward.dbias = dbias.data();
    batch_norm_backward(backward);
    for (const Floats& values : {y, mean, invstd, dx, dweight, dbias}) r.add(values);
  }
  return r;
}

Results softmaxes() {
  Results r;
  const SoftmaxShape shapes[] = {{9, 10, 1}, {3, 100, 1}, {2, 400, 1}, {2, 1000, 1}, {1, 3000, 1}, {2, 20, 40}};
  for (const SoftmaxShape& s : shapes) {
    const std::int64_t n = s.outer * s.size * s.inner;
    const Floats x = normal_floats(n, 1, 0.0f, 4.0f), dy = normal_floats(n, 2);
    Floats y(x.size()), dx(x.size());
    softmax(s, x.data(), y.data());
    softmax_backward(s, dy.data(), y.data(), dx.data());
    r.add(y), r.add(dx);
    log_softmax(s, x.data(), y.data());
    log_softmax_backward(s, dy.data(), y.data(), dx.data());
    r.add(y), r.add(dx);
  }
  return r;
}

Results losses() {
  Results r;
  for (const std::int64_t n : {100, 6 * 512 + 9}) {
    const Floats x = wide_floats(n * 3, 1);
    std::vector<std::int64_t> target(static_cast<std::size_t>(n));
    for (std::size_t i = 0; i < target.size(); ++i) target[i] = static_cast<std::int64_t>(i * i % 3);
    float loss = 0, weight = 0;
    r.add(nll_forward({n, 3}, x.data(), target.data(), nullptr, &loss, &weight));
    r.add(Floats{loss, weight});
  }
  return r;
}

Results integers() {
  Results r;
  for (const std::int64_t n : {7, 5000}) {
    const Floats x = wide_floats(n, 1);
    const Fingerprint sums = element_sums(x.data(), 0, n);
    r.add(static_cast<std::int64_t>(sums.high)), r.add(static_cast<std::int64_t>(sums.low));
    for (const std::size_t place : {0, 3, 6}) {
      Floats one(x.size());
      one[place] = 0x1p100f;
      r.add(top_limb(one.data(), n));
    }
  }
  return r;
}

Results scans() {
  Results r;
  const Floats x = wide_floats(3 * 70, 1);
  Floats y(x.size());
  for (const Cumulative op : {Cumulative::sum, Cumulative::product}) {
    cumulative(op, 3, 70, 1, x.data(), y.data());
    r.add(y);
  }
  return r;
}

Results row_scans() {
  Results r;
  Floats x = wide_floats(3 * 70, 1);
  for (std::size_t i = 0; i < x.size(); i += 3) x[i] = x[i / 2];
  Floats values(x.size());
  std::vector<std::int64_t> places(x.size());
  running_extremum(true, 3, 70, 1, x.data(), values.data(), places.data());
  r.add(values);
  for (const std::int64_t place : places) r.add(place);
  for (const std::int64_t size : {70, 33 * 512 + 3}) {  // more leaves than a warp has threads
    const Floats factors = normal_floats(size, 2, 1.0f, 0.05f);
    Floats y(1);
    product(1, size, 1, factors.data(), y.data());
    r.add(y);
  }
  return r;
}

Results sorts() {
  Results r;
  for (const auto& [rows, n] : {std::pair<std::int64_t, std::int64_t>{100, 5}, {3, 700}, {1, 3 * 2048 + 5}}) {
    const Floats x = wide_floats(rows * n, 4);
    Floats values(x.size());
    std::vector<std::int64_t> places(x.size());
    sort_rows(false, rows, n, x.data(), values.data(), places.data());
    r.add(values);
    for (const std::int64_t place : places) r.add(place);
  }
  return r;
}

// One element met by more outputs than it sorts by itself.
Results incidences() {
  Results r;
  const Floats dy = wide_floats(2 * 150, 1);
  std::vector<std::int64_t> index(dy.size());
  for (std::size_t i = 0; i < index.size(); ++i) index[i] = i % 3 == 0 ? 4 : 1;
  Floats dx(2 * 6);
  max_pool_gradient(2, 6, 150, dy.data(), index.data(), dx.data());
  r.add(dx);
  return r;
}

const std::map<std::string, std::function<Results()>> kFamilies = {{"products", products},
                                                                   {"exact_products", exact_products},
                                                                   {"exact_convolutions", exact_convolutions},
                                                                   {"convolutions", convolutions},
                                                                   {"reductions", reductions},
                                                                   {"batch_norms", batch_norms},
                                                                   {"softmaxes", softmaxes},
                                                                   {"losses", losses},
                                                                   {"integers", integers},
                                                                   {"scans", scans},
                                                                   {"row_scans", row_scans},
                                                                   {"sorts", sorts},
                                                                   {"incidences", incidences}};

// ---- leaving waits out -----------------------------------------------------------------------------------

Results on_device(const std::function<Results()>& sweep, ThreadOrder order) {
  const EmulatedScope scope(order);
  return sweep();
}

// The places that a sweep meets; it gives the reference's bits in every order of threads.
std::set<Site> sites_of(const std::function<Results()>& sweep, const Results& expected) {
  (void)take_sites();
  for (const ThreadOrder order : kOrders) EXPECT_TRUE(on_device(sweep, order) == expected);
  const std::vector<Site> sites = take_sites();
  return {sites.begin(), sites.end()};
}

bool is_seen(const std::function<Results()>& sweep, const Results& expected, const Site& site) {
  const auto differs = [&](ThreadOrder order) {
    try {
      return !(on_device(sweep, order) == expected);
    } catch (const EmulationError&) {
      return true;
    }
  };
  omit(site);
  const bool seen = std::any_of(std::begin(kOrders), std::end(kOrders), differs);
  omit("");
  return seen;
}

class Waits : public ::testing::TestWithParam<std::string> {};

TEST_P(Waits, EachIsNeeded) {
  const auto& sweep = kFamilies.at(GetParam());
  const Results expected = by_reference(sweep);
  const std::set<Site> sites = sites_of(sweep, expected);
  EXPECT_FALSE(sites.empty());
  for (const Site& site : sites) EXPECT_TRUE(is_seen(sweep, expected, site)) << "nothing shows without " << site;
  EXPECT_TRUE(on_device(sweep, ThreadOrder::shuffled) == expected) << "whole again";
}

INSTANTIATE_TEST_SUITE_P(OfFamily, Waits, ::testing::ValuesIn([] {
                           std::vector<std::string> names;
                           for (const auto& [name, sweep] : kFamilies) names.push_back(name);
                           return names;
                         }()),
                         [](const auto& info) { return info.param; });

// ---- the sources -----------------------------------------------------------------------------------------

// Where a kernel waits, with the text of the line. Words of waiting as device.h lists them.
std::map<Site, std::string> written_sites() {
  static const std::regex word(R"(\b(barrier\(|wait_async<|shuffle(_xor|_down)?\(|mma_s8\(|load_matrices\())");
  std::map<Site, std::string> sites;
  for (const auto& entry : std::filesystem::directory_iterator(ISOBIT_CUDA_SOURCES)) {
    const std::string file = entry.path().filename();
    if (file == "device.h" || file == "device_nvcc.h") continue;  // the words themselves
    std::ifstream stream(entry.path());
    std::string line;
    for (int number = 1; std::getline(stream, line); ++number) {
      const std::string code = line.substr(0, line.find("//"));
      if (std::regex_search(code, word)) sites[file + ":" + std::to_string(number)] = line;
    }
  }
  return sites;
}

TEST(WaitsInTheSources, EachIsMetByASweep) {
  (void)take_sites();
  for (const auto& [name, sweep] : kFamilies) (void)on_device(sweep, ThreadOrder::ascending);
  const std::vector<Site> met = take_sites();
  const auto written = written_sites();
  EXPECT_GE(written.size(), 10u);
  for (const auto& [site, text] : written) {
    EXPECT_GT(std::count(met.begin(), met.end(), site), 0) << site << " is never reached: " << text;
  }
  for (const Site& site : met) EXPECT_TRUE(written.contains(site)) << site;
}

// Three by name, so that they cannot get lost among the rest.
TEST(WaitsInTheSources, TheseShowWhenLeftOut) {
  struct Named {
    const char *family, *file, *word;
  };
  constexpr Named kNamed[] = {{"products", "tile_product.h", "wait_async<"},          // the copies of a stage
                              {"products", "tile_product.h", "barrier()"},            // the other threads' copies
                              {"exact_products", "exact_blocks.h", "barrier()"},      // a stage's digits
                              {"exact_products", "exact_blocks.h", "wait_async<0>"},  // copies beyond the last stage
                              {"exact_convolutions", "exact_tile.h", "mma_s8(sum[2], a[2]"},
                              {"batch_norms", "leaf.h", "barrier()"},            // lanes of one leaf in several warps
                              {"reductions", "ordered_reduce.h", "barrier()"}};  // parts of a tree
  const auto written = written_sites();
  for (const Named& named : kNamed) {
    const auto found = std::find_if(written.begin(), written.end(), [&](const auto& site) {
      return site.first.starts_with(named.file) && site.second.find(named.word) != std::string::npos;
    });
    ASSERT_NE(found, written.end()) << named.file << " " << named.word;
    const auto& sweep = kFamilies.at(named.family);
    EXPECT_TRUE(is_seen(sweep, by_reference(sweep), found->first)) << found->first << found->second;
  }
}

}  // namespace
}  // namespace isobit::kernels::emulated
