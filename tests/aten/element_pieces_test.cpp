// Large element-wise operators of stock, cut into pieces for isobit's threads: the bits, the layout, the aliases and
// the errors of one call.
#include "aten/element_pieces.h"

#include <cstring>
#include <functional>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include "aten/guard.h"
#include "aten/operator_switch.h"
#include "kernels/threads.h"

namespace isobit::aten {
namespace {

using at::Tensor;

constexpr std::int64_t kLarge = 200003;  // several pieces, the last one shorter

// Equal bytes, NaN and the sign of zero included, and equal layout.
void expect_same(const Tensor& got, const Tensor& wanted, const std::string& what) {
  ASSERT_EQ(got.scalar_type(), wanted.scalar_type()) << what;
  ASSERT_EQ(got.sizes(), wanted.sizes()) << what;
  EXPECT_EQ(got.strides(), wanted.strides()) << what;
  const Tensor a = got.contiguous(), b = wanted.contiguous();
  EXPECT_EQ(std::memcmp(a.const_data_ptr(), b.const_data_ptr(), a.nbytes()), 0) << what;
}

Tensor hostile(at::IntArrayRef sizes, at::ScalarType type = at::kFloat) {
  Tensor x = at::randn(sizes).mul(at::randn(sizes).mul(40).exp()).to(type);
  Tensor flat = x.view(-1);
  const double values[] = {0.0, -0.0, NAN, INFINITY, -INFINITY, 1e-42, 3.4e38};
  for (int i = 0; i < 7; ++i) flat[i * flat.numel() / 7].fill_(values[i]);
  return x;
}

struct Case {
  std::string name;
  std::function<Tensor()> run;  // of fresh operands: in-place ones change them
};

// Stock on one thread, outside of the guard, against pieces on three.
void check(const Case& c) {
  at::set_num_threads(1);
  at::manual_seed(7);
  const Tensor wanted = c.run();
  const kernels::ThreadCountScope threads(3);
  {
    const Guard guard;
    at::manual_seed(7);
    expect_same(c.run(), wanted, c.name);
  }
  const OperatorSwitch on;  // whose additions are its own
  expect_same(c.run(), wanted, c.name + " under the switch");
}

// Operands are made outside of the guard, which has random numbers of its own.
Case of(std::string name, std::vector<Tensor> operands, std::function<Tensor(std::vector<Tensor>&)> run) {
  return {std::move(name), [operands, run] {
            std::vector<Tensor> fresh;
            for (const Tensor& one : operands) fresh.push_back(one.clone(at::MemoryFormat::Preserve));
            return run(fresh);
          }};
}

TEST(ElementPieces, GiveTheBitsAndTheLayoutOfOneCall) {
  for (const at::ScalarType type : {at::kFloat, at::kDouble}) {
    const Tensor a = hostile({kLarge}, type), b = hostile({kLarge}, type);
    const Tensor square = hostile({511, 403}, type), across = hostile({403, 511}, type).t();
    const Tensor condition = at::rand({kLarge}) < 0.5;
    const Case cases[] = {
        of("mul", {a, b}, [](auto& t) { return t[0].mul(t[1]); }),
        of("mul number", {a}, [](auto& t) { return t[0].mul(0.1); }),
        of("mul 0-dim", {a, at::scalar_tensor(0.1, at::kDouble)}, [](auto& t) { return t[0].mul(t[1]); }),
        of("0-dim mul", {a, at::scalar_tensor(0.1, at::kDouble)}, [](auto& t) { return t[1].mul(t[0]); }),
        of("mul_", {a, b}, [](auto& t) { return t[0].mul_(t[1]); }),
        of("mul_ itself", {a}, [](auto& t) { return t[0].mul_(t[0]); }),
        of("mul_ across", {square, across}, [](auto& t) { return t[0].mul_(t[1]); }),
        of("mul across", {square, across}, [](auto& t) { return t[0].mul(t[1]); }),
        of("mul transposed", {across}, [](auto& t) { return t[0].mul(t[0]); }),
        of("mul column", {square, hostile({511, 1}, type)}, [](auto& t) { return t[0].mul(t[1]); }),
        of("mul row", {square, hostile({403}, type)}, [](auto& t) { return t[0].mul(t[1]); }),
        of("row mul", {square, hostile({1, 403}, type)}, [](auto& t) { return t[1].mul(t[0]); }),
        of("mul_ row", {square, hostile({403}, type)}, [](auto& t) { return t[0].mul_(t[1]); }),
        of("mul outer", {hostile({700, 1}, type), hostile({500}, type)}, [](auto& t) { return t[0].mul(t[1]); }),
        of("mul row across", {across, hostile({511, 1}, type)}, [](auto& t) { return t[0].mul(t[1]); }),
        of("mul_ row across", {across, hostile({511, 1}, type)}, [](auto& t) { return t[0].mul_(t[1]); }),
        of("mul turned row", {square, hostile({403, 2}, type)}, [](auto& t) { return t[0].mul(t[1].t()[0]); }),
        of("mul one element", {square, hostile({9, 1, 1}, type)},
           [](auto& t) { return t[0].mul(t[1].slice(0, 2, 3)); }),
        of("mul few rows", {hostile({2, 100003}, type), hostile({2, 1}, type)}, [](auto& t) { return t[0].mul(t[1]); }),
        of("mul one row", {hostile({1, 200003}, type), hostile({1, 1, 1}, type)},
           [](auto& t) { return t[0].mul(t[1]); }),
        of("mul channels", {hostile({4, 16, 64, 64}, type), hostile({4, 16, 1, 1}, type)},
           [](auto& t) { return t[0].mul(t[1]); }),
        of("add row", {square, hostile({403}, type)}, [](auto& t) { return t[0].add(t[1]); }),
        of("row add", {square, hostile({1, 403}, type)}, [](auto& t) { return t[1].add(t[0]); }),
        of("add_ column", {square, hostile({511, 1}, type)}, [](auto& t) { return t[0].add_(t[1]); }),
        of("sub row", {square, hostile({403}, type)}, [](auto& t) { return t[0].sub(t[1]); }),
        of("sub_ row across", {across, hostile({511, 1}, type)}, [](auto& t) { return t[0].sub_(t[1]); }),
        of("add to a part of itself", {square}, [](auto& t) { return t[0].add(t[0][3]); }),
        of("div column", {square, hostile({511, 1}, type)}, [](auto& t) { return t[0].div(t[1]); }),
        of("gt row", {square, hostile({403}, type)}, [](auto& t) { return t[0].gt(t[1]); }),
        of("where row", {at::rand({511, 1}) < 0.5, square, hostile({403}, type)},
           [](auto& t) { return at::where(t[0], t[1], t[2]); }),
        of("masked_fill_ column", {square, at::rand({511, 1}) < 0.5},
           [](auto& t) { return t[0].masked_fill_(t[1], 0.1); }),
        of("mul beyond binary32", {a}, [](auto& t) { return t[0].mul(1e300); }),
        of("mul 0-dim integer",
           {a, at::scalar_tensor((std::int64_t{1} << 62) + (std::int64_t{1} << 38) + 1, at::kLong)},
           [](auto& t) { return t[0].mul(t[1]); }),
        of("mul of a row that begins later", {square, hostile({511, 403}, type)},
           [](auto& t) { return t[0].slice(0, 1).mul(t[1].slice(0, 0, 510)); }),
        of("add", {a, b}, [](auto& t) { return t[0].add(t[1]); }),
        of("add number", {a}, [](auto& t) { return t[0].add(0.1); }),
        of("add twice", {a, b}, [](auto& t) { return t[0].add(t[1], 1.0); }),
        of("add_", {a, b}, [](auto& t) { return t[0].add_(t[1]); }),
        of("add_ itself", {a}, [](auto& t) { return t[0].add_(t[0]); }),
        of("add across", {square, across}, [](auto& t) { return t[0].add(t[1]); }),
        of("add transposed", {across}, [](auto& t) { return t[0].add(t[0]); }),
        of("sub", {a, b}, [](auto& t) { return t[0].sub(t[1]); }),
        of("sub_ number", {a}, [](auto& t) { return t[0].sub_(3); }),
        of("number minus", {a}, [](auto& t) { return at::rsub(t[0], 2.5); }),
        of("number over", {a, at::scalar_tensor(0.1, at::kDouble)}, [](auto& t) { return t[1].div(t[0]); }),
        of("zero_", {a}, [](auto& t) { return t[0].zero_(); }),
        of("zero_ columns", {square},
           [](auto& t) {
             t[0].slice(1, 3, 400).zero_();
             return t[0];
           }),
        of("zero_ transposed", {across}, [](auto& t) { return t[0].zero_(); }),
        of("fill_ not finite", {a}, [](auto& t) { return t[0].fill_(-INFINITY); }),
        of("copy_ onto itself", {a}, [](auto& t) { return t[0].copy_(t[0]); }),
        of("select_backward", {square.unsqueeze(0)},
           [](auto& t) {
             return at::select_backward(t[0][0], {3, 511, 403}, 0, 1);
           }),
        of("div", {a, b}, [](auto& t) { return t[0].div(t[1]); }),
        of("div_ number", {a}, [](auto& t) { return t[0].div_(3.0); }),
        of("neg", {a}, [](auto& t) { return t[0].neg(); }),
        of("neg_ strided", {square}, [](auto& t) { return t[0].t().neg_(); }),
        of("where", {condition, a, b}, [](auto& t) { return at::where(t[0], t[1], t[2]); }),
        of("where number", {condition, a}, [](auto& t) { return at::where(t[0], t[1], 0.0); }),
        of("gt", {a}, [](auto& t) { return t[0].gt(0.5); }),
        of("le", {a, b}, [](auto& t) { return t[0].le(t[1]); }),
        of("ne across", {square, across}, [](auto& t) { return t[0].ne(t[1]); }),
        of("fill_", {a}, [](auto& t) { return t[0].fill_(0.1); }),
        of("fill_ columns", {square},
           [](auto& t) {
             t[0].slice(1, 3, 400).fill_(0.1);
             return t[0];
           }),
        of("masked_fill_", {a, condition}, [](auto& t) { return t[0].masked_fill_(t[1], 0.1); }),
        of("copy_", {a, b}, [](auto& t) { return t[0].copy_(t[1]); }),
        of("copy_ across", {square, across}, [](auto& t) { return t[0].copy_(t[1]); }),
        of("copy_ row", {square, hostile({403}, type)}, [](auto& t) { return t[0].copy_(t[1]); }),
        of("contiguous", {across}, [](auto& t) { return t[0].contiguous(); }),
        of("channels last", {hostile({4, 16, 64, 64}, type)},
           [](auto& t) { return t[0].contiguous(at::MemoryFormat::ChannelsLast); }),
        of("to double", {a}, [](auto& t) { return t[0].to(at::kDouble); }),
        of("to long", {at::randn({kLarge}, type).mul(1000)}, [](auto& t) { return t[0].to(at::kLong); }),
    };
    for (const Case& c : cases) check(c);
  }
  check(of("integers", {at::arange(kLarge), at::arange(kLarge)}, [](auto& t) { return t[0].mul(t[1]); }));
  check(of("integers divide", {at::arange(kLarge), at::arange(kLarge)}, [](auto& t) { return t[0].div(t[1]); }));
  check(of("two types", {hostile({kLarge}), hostile({kLarge}, at::kDouble)}, [](auto& t) { return t[0].mul(t[1]); }));
}

// Stretched at random: layout and bits are stock's, whichever operand is the larger one.
TEST(ElementPieces, StretchAsStockDoes) {
  at::manual_seed(3);
  const auto draw = [](std::int64_t most) { return at::randint(most, {1}).item<std::int64_t>(); };
  for (int trial = 0; trial < 200; ++trial) {
    std::vector<std::int64_t> large;
    for (std::int64_t count = 1; count < 70000;) large.push_back(1 + draw(90)), count *= large.back();
    std::vector<std::int64_t> other(large.begin() + draw(static_cast<std::int64_t>(large.size())), large.end());
    for (std::int64_t& size : other) size = draw(2) == 0 ? 1 : size;
    Tensor a = hostile(large), b = hostile(other);
    if (draw(3) == 0) a = a.transpose(0, -1).contiguous().transpose(0, -1);
    if (draw(2) == 0) std::swap(a, b);
    check(of("mul " + std::to_string(trial), {a, b}, [](auto& t) { return t[0].mul(t[1]); }));
    check(of("sub " + std::to_string(trial), {a, b}, [](auto& t) { return t[0].sub(t[1]); }));
  }
}

TEST(ElementPieces, OneAfterTheOther) {
  for (const at::ScalarType type : {at::kFloat, at::kDouble, at::kHalf, at::kLong, at::kBool, at::kComplexFloat}) {
    const auto made = [&](at::IntArrayRef sizes) { return at::randn(sizes).mul(3).to(type); };
    const auto along = [](std::int64_t dim) { return [dim](auto& t) { return at::cat(t, dim); }; };
    const std::vector<Case> cases = {
        of("cat", {made({300, 400}), made({200, 400}), made({1, 400})}, along(0)),
        of("cat last", {made({1000, 100}), made({1000, 300}), made({1000, 1})}, along(-1)),
        of("cat middle", {made({7, 30, 500}), made({7, 3, 500}), made({7, 90, 500})}, along(1)),
        of("cat one", {made({300, 900})}, along(1)),
        of("cat nothing and something", {made({0}), made({300, 900})}, along(0)),
        of("cat turned", {made({400, 300}).t(), made({300, 900})}, along(1)),
        of("cat channels last", {made({4, 8, 64, 64}).contiguous(at::MemoryFormat::ChannelsLast), made({4, 8, 64, 64})},
           along(1)),
        of("cat both channels last", {made({4, 8, 64, 64}), made({4, 8, 64, 64})},
           [](auto& t) {
             for (auto& one : t) one = one.contiguous(at::MemoryFormat::ChannelsLast);
             return at::cat(t, 1);
           }),
        of("cat of one channel", {made({4, 1, 300, 300}), made({4, 1, 300, 300})}, along(1)),
        of("stack", {made({300, 400}), made({300, 400})}, [](auto& t) { return at::stack(t, 1); }),
        of("parts of one", {made({300, 900})},
           [](auto& t) {
             return at::cat({t[0].slice(0, 0, 100), t[0].slice(0, 50, 300)});
           }),
    };
    for (const Case& c : cases) check(c);
  }
  check(of("two types", {at::ones({300, 400}), at::ones({300, 400}, at::kLong)}, [](auto& t) { return at::cat(t); }));
  const kernels::ThreadCountScope threads(3);
  const OperatorSwitch on;
  EXPECT_ANY_THROW(at::cat({at::ones({300, 400}), at::ones({300, 500})}));
  EXPECT_ANY_THROW(at::cat({at::ones({300, 400}), at::ones({300, 400})}, 2));
}

bool in_pieces(const char* name, const char* overload, torch::jit::Stack stack) {
  const auto op = c10::Dispatcher::singleton().findSchemaOrThrow(name, overload);
  const std::size_t arguments = op.schema().arguments().size();
  const bool done = call_in_pieces(op, c10::DispatchKeySet(c10::DispatchKey::CPU), &stack);
  EXPECT_EQ(stack.size(), done ? 1 : arguments);
  return done;
}

TEST(ElementPieces, OnlyWhereItPaysAndIsSafe) {
  const Tensor x = at::ones({2 * kLarge}), y = at::ones({2 * kLarge}), small = at::ones({100}),
               wide = at::ones({4, kLarge});
  {
    const kernels::ThreadCountScope one(1);
    EXPECT_FALSE(in_pieces("aten::mul_", "Tensor", {x, y}));
  }
  const kernels::ThreadCountScope threads(3);
  EXPECT_TRUE(in_pieces("aten::mul_", "Tensor", {x, y}));
  EXPECT_TRUE(in_pieces("aten::mul", "Tensor", {x, y}));
  EXPECT_TRUE(in_pieces("aten::where", "self", {x.gt(0), x, y}));
  EXPECT_TRUE(in_pieces("aten::copy_", "", {x, y, false}));
  EXPECT_TRUE(in_pieces("aten::zero_", "", {at::ones({kLarge})}));
  EXPECT_TRUE(in_pieces("aten::fill_", "Scalar", {at::ones({kLarge}), 0.5}));
  EXPECT_THROW((void)in_pieces("aten::fill_", "Scalar", {at::ones({kLarge}), 1e300}), std::exception)
      << "stock's error";
  EXPECT_FALSE(in_pieces("aten::zero_", "", {at::ones({1, 1}).expand({400, 400})})) << "one element";
  EXPECT_TRUE(in_pieces("aten::copy_", "", {at::ones({600, 400}), at::ones({400, 600}).t(), false}));
  EXPECT_FALSE(in_pieces("aten::mul_", "Tensor", {small, small}));
  EXPECT_TRUE(in_pieces("aten::mul", "Tensor", {wide, at::ones({4, 1})}));
  EXPECT_TRUE(in_pieces("aten::mul_", "Tensor", {wide, at::ones({4, 1})}));
  EXPECT_FALSE(in_pieces("aten::mul", "Tensor", {at::ones({400, 1}), at::ones({400})})) << "the layout of neither";
  EXPECT_FALSE(in_pieces("aten::mul", "Tensor", {wide, at::ones({3, 1})})) << "stock's error";
  EXPECT_FALSE(in_pieces("aten::mul_", "Tensor", {at::ones({4, 1}), wide})) << "stock's error";
  EXPECT_FALSE(in_pieces("aten::mul_", "Tensor", {wide, wide.slice(1, 7, 8)})) << "a part of itself";
  EXPECT_FALSE(in_pieces("aten::copy_", "", {wide.slice(1, 1), wide.slice(1, 0, kLarge - 1), false})) << "overlap";
  EXPECT_FALSE(in_pieces("aten::mul_", "Tensor", {x.slice(0, 0, kLarge), x.slice(0, 1, kLarge + 1)}));
  EXPECT_FALSE(in_pieces("aten::mul", "Tensor", {x, at::ones({2 * kLarge}, at::kDouble)}));
  EXPECT_FALSE(in_pieces("aten::addcmul", "", {x, x, x, 1.0}));
}

TEST(ElementPieces, LeaveAliasesAndVersionsAsOneCall) {
  const kernels::ThreadCountScope threads(3);
  const Guard guard;
  Tensor x = at::ones({kLarge});
  const Tensor view = x.view({kLarge});
  const auto version = x._version();
  Tensor& same = x.mul_(2.0);
  EXPECT_TRUE(same.is_same(x));
  EXPECT_EQ(x._version(), version + 1);
  EXPECT_EQ(view[kLarge - 1].item<float>(), 2.0f);
}

// A piece would read what another wrote: stock's own answer, which is an error or a whole copy, stands.
TEST(ElementPieces, ADistantOverlapIsStocksError) {
  const kernels::ThreadCountScope threads(3);
  const Guard guard;
  const Tensor x = at::ones({2 * kLarge});
  EXPECT_THROW(x.slice(0, 0, kLarge).mul_(x.slice(0, 100000, 100000 + kLarge)), c10::Error);
  EXPECT_THROW(at::ones({1}).expand({kLarge}).mul_(2.0), c10::Error);
  EXPECT_THROW(at::ones({kLarge}).mul_(at::ones({kLarge + 1})), c10::Error);
  EXPECT_TRUE(x.eq(1).all().item<bool>());
}

TEST(ElementPieces, GradientsFlow) {
  const kernels::ThreadCountScope threads(3);
  const Guard guard;
  const Tensor x = at::full({kLarge}, 3.0f).requires_grad_(), y = at::full({kLarge}, 5.0f).requires_grad_();
  x.mul(y).sum().backward();
  EXPECT_TRUE(x.grad().eq(5).all().item<bool>());
  EXPECT_TRUE(y.grad().eq(3).all().item<bool>());
}

}  // namespace
}  // namespace isobit::aten
