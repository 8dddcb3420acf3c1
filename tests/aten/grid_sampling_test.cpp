// grid_sample and affine grids: values and gradients in every mode, large and empty shapes, what is refused.
#include "operator_cases.h"

namespace isobit::test {
namespace {

Tensor grid_of(std::vector<std::int64_t> sizes) { return at::rand(sizes).mul_(2.6).sub_(1.3); }

TEST(GridSampling, ValuesGradientsThreadsStridesAndStockBack) {
  at::manual_seed(310);
  const Tensor image = at::randn({2, 3, 6, 9}), grid = grid_of({2, 5, 8, 2});
  const Tensor body = at::randn({2, 2, 3, 4, 5}), places = grid_of({2, 3, 4, 3, 3});
  for (const std::int64_t padding : {0, 1, 2}) {
    for (const bool align : {false, true}) {
      for (const std::int64_t filter : {0, 1, 2}) {
        Case flat{"filter " + std::to_string(filter) + ", padding " + std::to_string(padding),
                  {image, grid},
                  [=](const Tensors& t) { return at::grid_sampler(t[0], t[1], filter, padding, align); }};
        flat.bound = 3e-5;
        check(flat);
        if (filter == 2) continue;
        Case deep{flat.name + ", three dimensions", {body, places}, [=](const Tensors& t) {
                    return at::grid_sampler(t[0], t[1], filter, padding, align);
                  }};
        deep.bound = 3e-5;
        check(deep);
      }
    }
  }
}

TEST(GridSampling, LargeAndEmpty) {
  at::manual_seed(311);
  const auto sample = [](const Tensors& t) { return at::grid_sampler(t[0], t[1], 0, 0, false); };
  Case large{"large", {at::randn({3, 20, 40, 50}), grid_of({3, 60, 70, 2})}, sample};
  large.bound = 3e-5;
  check(large);
  for (const auto& [batch, channels, height] : {std::tuple{0, 3, 4}, {2, 0, 4}, {2, 3, 0}}) {
    Case empty{"empty", {at::randn({batch, channels, 3, 3}), grid_of({batch, height, 5, 2})}, sample};
    check(empty);
  }
}

TEST(GridSampling, AffineGrids) {
  at::manual_seed(312);
  for (const bool align : {false, true}) {
    Case flat{"affine", {at::randn({2, 2, 3})}, [=](const Tensors& t) {
                return at::affine_grid_generator(t[0], {2, 3, 5, 7}, align);
              }};
    check(flat);
    Case deep{"affine, three dimensions", {at::randn({2, 3, 4})}, [=](const Tensors& t) {
                return at::affine_grid_generator(t[0], {2, 3, 5, 7, 4}, align);
              }};
    check(deep);
  }
}

TEST(GridSampling, Refuses) {
  const Tensor x = at::ones({1, 2, 4, 4}), grid = at::zeros({1, 3, 3, 2});
  const aten::OperatorSwitch on;
  expect_throws([&] { at::grid_sampler(x.to(at::kDouble), grid.to(at::kDouble), 0, 0, false); }, "Double");
  expect_throws([&] { at::grid_sampler_2d(x, grid.select(-1, 0), 0, 0, false); }, "");
}

}  // namespace
}  // namespace isobit::test
