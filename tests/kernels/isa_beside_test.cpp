// The implementation that is taken beside another one, on machines of every kind.
#include "kernels/isa_beside.h"

#include <gtest/gtest.h>

#include <vector>

namespace isobit::kernels {
namespace {

using Isas = std::vector<Isa>;

const Isas kPlain{Isa::reference}, kAvx2{Isa::reference, Isa::avx2}, kTested{Isa::reference, Isa::avx2, Isa::lanes16},
    kAvx512{Isa::reference, Isa::avx2, Isa::avx512};

TEST(IsaBeside, IsAnotherOfComparableSpeed) {
  EXPECT_EQ(isa_beside(Isa::avx512, kAvx512), Isa::avx2);
  EXPECT_EQ(isa_beside(Isa::avx2, kAvx512), Isa::avx512);
  EXPECT_EQ(isa_beside(Isa::avx512, kAvx2), Isa::avx2);  // recorded elsewhere
  EXPECT_EQ(isa_beside(Isa::avx2, kTested), Isa::lanes16);
  EXPECT_EQ(isa_beside(Isa::lanes16, kAvx2), Isa::avx2);
}

TEST(IsaBeside, ProductsOfTheExactTierAreAvx512Otherwise) {
  for (const Isa isa : {Isa::amx, Isa::avx512vnni}) {
    EXPECT_EQ(isa_beside(isa, kAvx512), Isa::avx2);
    EXPECT_EQ(isa_beside(isa, kAvx2), Isa::avx2);
  }
}

TEST(IsaBeside, IsTheSameWhereOnlyTheReferenceIsLeft) {
  EXPECT_EQ(isa_beside(Isa::avx2, kAvx2), Isa::avx2);
  EXPECT_EQ(isa_beside(Isa::reference, kPlain), Isa::reference);
}

TEST(IsaBeside, OfTheReferenceIsTheFastest) {
  EXPECT_EQ(isa_beside(Isa::reference, kAvx2), Isa::avx2);
  EXPECT_EQ(isa_beside(Isa::reference, kAvx512), Isa::avx512);
  EXPECT_EQ(isa_beside(Isa::avx512, kPlain), Isa::reference);  // recorded on another architecture
}

TEST(IsaBeside, CanRunHere) {
  for (const Isa isa : available_product_isas()) EXPECT_TRUE(isa_available(isa_beside(isa))) << name(isa);
}

TEST(IsaBeside, TheReferenceIsSlowest) {
  for (const Isa isa : {Isa::avx2, Isa::avx512, Isa::lanes16, Isa::amx, Isa::avx512vnni})
    EXPECT_LT(relative_time(isa), relative_time(Isa::reference)) << name(isa);
}

}  // namespace
}  // namespace isobit::kernels
