// The switch itself: stock, ours, stock again; nesting; the table names operators that exist.
#include "aten/operator_switch.h"

#include <ATen/ATen.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <gtest/gtest.h>

#include <set>
#include <string>

#include "aten/certified.h"
#include "contract/ordered_dot.h"

namespace isobit::aten {
namespace {

// Stock's product of these differs from the contract's in some bit, whatever the machine.
struct Product {
  at::Tensor a = at::randn({16, 1500}), b = at::randn({1500, 8});
  at::Tensor by_definition() const {
    at::Tensor c = at::empty({16, 8});
    for (int i = 0; i < 16; ++i) {
      for (int j = 0; j < 8; ++j) {
        c.data_ptr<float>()[i * 8 + j] =
            contract::ordered_dot(a.data_ptr<float>() + i * 1500, 1, b.data_ptr<float>() + j, 8, 1500);
      }
    }
    return c;
  }
};

TEST(OperatorSwitch, StockIsBackWhenItDies) {
  at::manual_seed(1);
  const Product product;
  const at::Tensor stock = at::mm(product.a, product.b);
  EXPECT_FALSE(OperatorSwitch::on());
  {
    const OperatorSwitch on;
    EXPECT_TRUE(OperatorSwitch::on());
    const at::Tensor ours = at::mm(product.a, product.b);
    EXPECT_TRUE(ours.equal(product.by_definition()));
    EXPECT_FALSE(ours.equal(stock));  // or the test shows nothing
    {
      const OperatorSwitch nested;
      EXPECT_TRUE(at::mm(product.a, product.b).equal(ours));
    }
    EXPECT_TRUE(at::mm(product.a, product.b).equal(ours));
  }
  EXPECT_FALSE(OperatorSwitch::on());
  EXPECT_TRUE(at::mm(product.a, product.b).equal(stock));
}

TEST(OperatorSwitch, AutogradGoesThrough) {
  at::manual_seed(2);
  const Product product;
  const OperatorSwitch on;
  at::Tensor a = product.a.clone().requires_grad_();
  at::mm(a, product.b).backward(at::ones({16, 8}));
  EXPECT_TRUE(a.grad().equal(at::mm(at::ones({16, 8}), product.b.t())));
}

TEST(CertifiedTable, NamesEachOverloadOnceAndAllExist) {
  std::set<std::string> seen;
  for (const CertifiedOperator& op : certified_operators()) {
    const std::string name(op.name), overload(op.overload);
    EXPECT_TRUE(seen.insert(name + "." + overload).second) << name << "." << overload;
    EXPECT_TRUE(c10::Dispatcher::singleton().findSchema({name, overload})) << name << "." << overload;
    EXPECT_FALSE(op.section.empty()) << name;
  }
  EXPECT_GT(seen.size(), 100u);
}

}  // namespace
}  // namespace isobit::aten
