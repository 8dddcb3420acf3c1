// The losses of torch.nn beside those of softmax_loss_test.cpp.
#include <algorithm>
#include <cmath>
#include <utility>

#include "operator_cases.h"

namespace isobit::test {
namespace {

constexpr std::int64_t kReductions[] = {at::Reduction::None, at::Reduction::Mean, at::Reduction::Sum};

using Loss = std::function<Tensor(const Tensors&, std::int64_t)>;
void check_reductions(const std::string& name, const Tensors& inputs, const Loss& loss) {
  for (const std::int64_t reduction : kReductions) {
    check({name + " " + std::to_string(reduction), inputs, [=](const Tensors& t) { return loss(t, reduction); }, 2e-5});
  }
}

TEST(LossTerms, ValuesGradientsThreadsStridesAndStockBack) {
  at::manual_seed(90);
  const Tensor x = at::randn({12, 7}), y = at::randn({12, 7}), p = at::rand({12, 7}).mul(0.9).add(0.05);
  const Tensor q = at::rand({12, 7}), signs = at::where(y > 0, at::ones({12, 7}), at::full({12, 7}, -1.0f));
  check_reductions("l1", {x, y}, [](const Tensors& t, auto r) { return at::l1_loss(t[0], t[1], r); });
  check_reductions("smooth l1", {x, y},
                   [](const Tensors& t, auto r) { return at::smooth_l1_loss(t[0], t[1], r, 0.7); });
  check_reductions("huber", {x, y}, [](const Tensors& t, auto r) { return at::huber_loss(t[0], t[1], r, 0.7); });
  check_reductions("bce", {p, q, at::rand({7})}, [](const Tensors& t, auto r) {
    return at::binary_cross_entropy(t[0], t[1].detach(), t[2].detach(), r);
  });
  check_reductions("bce with logits", {x, q, at::rand({7}), at::rand({7})}, [](const Tensors& t, auto r) {
    return at::binary_cross_entropy_with_logits(t[0], t[1].detach(), t[2].detach(), t[3].detach(), r);
  });
  check_reductions("kl", {x, q}, [](const Tensors& t, auto r) { return at::kl_div(t[0], t[1], r); });
  check_reductions("kl of logarithms", {x, y},
                   [](const Tensors& t, auto r) { return at::kl_div(t[0], t[1], r, true); });
  check_reductions("soft margin", {x, signs},
                   [](const Tensors& t, auto r) { return at::soft_margin_loss(t[0], t[1].detach(), r); });
  check_reductions("hinge embedding", {x, signs},
                   [](const Tensors& t, auto r) { return at::hinge_embedding_loss(t[0], t[1].detach(), 1.0, r); });
  check_reductions("margin ranking", {x, y, signs},
                   [](const Tensors& t, auto r) { return at::margin_ranking_loss(t[0], t[1], t[2].detach(), 0.2, r); });
  check_reductions("cosine embedding", {x, y, signs}, [](const Tensors& t, auto r) {
    return at::cosine_embedding_loss(t[0], t[1], t[2].detach().select(1, 0), 0.1, r);
  });
  check_reductions("triplet margin", {x, y, at::randn({12, 7})}, [](const Tensors& t, auto r) {
    return at::triplet_margin_loss(t[0], t[1], t[2], 1.0, 2, 1e-6, true, r);
  });
  check_reductions("poisson", {x, q}, [](const Tensors& t, auto r) {
    return at::poisson_nll_loss(t[0], t[1].detach(), true, false, 1e-8, r);
  });
  check_reductions("dice", {x, q}, [](const Tensors& t, auto) {
    const Tensor s = t[0].sigmoid();
    return ((s * t[1]).sum(1) * 2 + 1) / (s.sum(1) + t[1].sum(1) + 1);
  });
}

// A gradient of one number is that of as many equal numbers, and the squared error that of its operators: more elements
// than copies of the number are kept, none, turned ones, both types.
TEST(LossTerms, OnePassHasTheBitsOfItsOperators) {
  at::manual_seed(92);
  const aten::OperatorSwitch on;
  constexpr std::int64_t kMean = at::Reduction::Mean;
  for (const at::ScalarType type : {at::kFloat, at::kDouble}) {
    for (const bool turned : {false, true}) {
      for (const std::int64_t columns : {0, 1, 9973}) {
        const auto given = [&](const Tensor& t) { return (turned ? t.t() : t).to(type); };
        const Tensor x = given(at::randn({7, columns})), t = given(at::randn({7, columns})).contiguous();
        const Tensor dy = at::full({}, -0.37, type), each = dy.expand(x.sizes()).contiguous();
        const Tensor share = at::full({}, 2.0 / std::max<double>(1, static_cast<double>(x.numel())), type);
        const Tensor p = x.sigmoid(), q = t.sigmoid();
        const std::pair<Tensor, Tensor> pairs[] = {
            {at::mse_loss(x, t, at::Reduction::None), x.sub(t).square()},
            {at::mse_loss_backward(dy, x, t, kMean), x.sub(t).mul(share).mul(dy)},
            {at::mse_loss_backward(dy, x, t, kMean), at::mse_loss_backward(each, x, t, kMean)},
            {at::huber_loss_backward(dy, x, t, kMean, 0.7), at::huber_loss_backward(each, x, t, kMean, 0.7)},
            {at::smooth_l1_loss_backward(dy, x, t, kMean, 0.7), at::smooth_l1_loss_backward(each, x, t, kMean, 0.7)},
            {at::binary_cross_entropy_backward(dy, p, q, {}, kMean),
             at::binary_cross_entropy_backward(each, p, q, {}, kMean)},
        };
        for (std::size_t i = 0; i < std::size(pairs); ++i)
          EXPECT_TRUE(at::equal(pairs[i].first, pairs[i].second)) << i << " of 7 x " << columns;
      }
    }
  }
}

TEST(LossTerms, ClassTargets) {
  at::manual_seed(91);
  const Tensor classes = at::arange(12).mul(5).remainder(7), image = at::arange(40).mul(3).remainder(4).view({2, 4, 5});
  const auto there = [](const Tensor& t, const Tensors& like) { return t.to(like[0].device()); };
  for (const int power : {1, 2}) {
    check_reductions("multi margin " + std::to_string(power), {at::randn({12, 7}), at::rand({7})},
                     [=](const Tensors& t, auto r) {
                       return at::multi_margin_loss(t[0], there(classes, t), power, 0.8, t[1].detach(), r);
                     });
  }
  check_reductions("nll of images", {at::randn({2, 4, 4, 5}), at::rand({4})}, [=](const Tensors& t, auto r) {
    return at::nll_loss2d(t[0], there(image, t), t[1].detach(), r, 2);
  });
  check_reductions("cross entropy of images", {at::randn({2, 4, 4, 5})},
                   [=](const Tensors& t, auto r) { return at::cross_entropy_loss(t[0], there(image, t), {}, r); });
}

// Lengths that differ, a target that repeats a class, an empty one.
TEST(LossTerms, ConnectionistTemporalClassification) {
  at::manual_seed(93);
  const Tensor padded = at::tensor({1, 2, 2, 4, 3, 3, 3, 1, 0, 0, 0, 0}, at::kLong).view({3, 4});
  const std::vector<std::int64_t> steps{12, 9, 3}, lengths{4, 3, 0};
  const auto loss = [=](const Tensors& t, const Tensor& targets, auto r) {
    return at::ctc_loss(t[0].log_softmax(2), targets.to(t[0].device()), steps, lengths, 0, r, true);
  };
  check_reductions("ctc", {at::randn({12, 3, 6})}, [=](const Tensors& t, auto r) { return loss(t, padded, r); });
  const Tensor joined = at::tensor({1, 2, 2, 4, 3, 3, 3}, at::kLong);
  check_reductions("ctc of joined targets", {at::randn({12, 3, 6})},
                   [=](const Tensors& t, auto r) { return loss(t, joined, r); });
  // Three steps cannot hold two equal labels and another.
  const aten::OperatorSwitch on;
  const Tensor x = at::randn({3, 1, 4}).log_softmax(2), impossible = at::tensor({1, 1, 2}, at::kLong);
  EXPECT_TRUE(std::isinf(at::ctc_loss(x, impossible, {3}, {3}, 0, at::Reduction::Sum).item<float>()));
  EXPECT_EQ(at::ctc_loss(x, impossible, {3}, {3}, 0, at::Reduction::Sum, true).item<float>(), 0.0f);
}

TEST(LossTerms, MultilabelTargets) {
  at::manual_seed(94);
  const Tensor targets = at::tensor({3, 0, -1, 1, 1, -1, 0, 0, 0, 0, 4, 3, 2, 1, 0}, at::kLong).view({3, 5});
  check_reductions("multilabel margin", {at::randn({3, 5})}, [=](const Tensors& t, auto r) {
    return at::multilabel_margin_loss(t[0], targets.to(t[0].device()), r);
  });
}

TEST(LossTerms, ImagesHaveTheBitsOfTheirRows) {
  at::manual_seed(92);
  const Tensor target = at::arange(2 * 40 * 33).mul(3).remainder(4).view({2, 40, 33}), weight = at::rand({4}).sub(0.2);
  const auto rows_of = [](const Tensor& t) { return t.permute({0, 2, 3, 1}).reshape({-1, 4}); };
  for (const at::ScalarType type : {at::kFloat, at::kDouble}) {
    const Tensor image = at::randn({2, 4, 40, 33}).mul(at::randn({2, 4, 40, 33}).mul(8).exp2()).to(type);
    for (const std::int64_t reduction : kReductions) {
      for (const std::int64_t ignored : {-100, 2}) {
        for (const bool weighted : {false, true}) {
          for (const bool last : {false, true}) {
            const aten::OperatorSwitch on;
            const std::optional<Tensor> by = weighted ? std::optional(weight.to(type)) : std::nullopt;
            const Tensor x = image.contiguous(last ? at::MemoryFormat::ChannelsLast : at::MemoryFormat::Contiguous);
            const Tensor a = x.clone().requires_grad_(), b = rows_of(image).clone().requires_grad_();
            const Tensor loss = at::nll_loss2d(a, target, by, reduction, ignored),
                         expected = at::nll_loss(b, target.flatten(), by, reduction, ignored);
            EXPECT_TRUE(same_bits(loss.flatten(), expected.flatten())) << reduction << ignored << weighted << last;
            loss.sum().backward(), expected.sum().backward();
            EXPECT_TRUE(same_bits(rows_of(a.grad()), b.grad())) << reduction << ignored << weighted << last;
          }
        }
      }
    }
  }
}

TEST(LossTerms, Refuses) {
  const Tensor x = at::full({4}, 1.5);
  const aten::OperatorSwitch on;
  expect_throws([&] { at::binary_cross_entropy(x, x); }, "between 0 and 1");
  expect_throws([&] { at::huber_loss(x, x, at::Reduction::Mean, 0.0); }, "delta");
  expect_throws([&] { at::smooth_l1_loss(x.to(at::kDouble), x); }, "Double");
  const Tensor image = at::ones({1, 3, 2, 2}), bad = at::full({1, 2, 2}, 3, at::kLong);
  expect_throws([&] { at::nll_loss2d(image, bad); }, "target 3 of row 0 is out of bounds for 3 classes");
  expect_throws([&] { at::nll_loss2d(image, bad.sub(4)); }, "target -1");
  expect_throws([&] { at::nll_loss2d(image, bad.sub(3), at::ones({2})); }, "one weight per class");
}

}  // namespace
}  // namespace isobit::test
