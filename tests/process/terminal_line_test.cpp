#include "process/terminal_line.h"

#include <gtest/gtest.h>

namespace isobit::process {
namespace {

TEST(TerminalLine, IsCutToItsWidth) {
  EXPECT_EQ(fitted("step 1 of 3", 0), "step 1 of 3");
  EXPECT_EQ(fitted("step 1 of 3", 12), "step 1 of 3");
  EXPECT_EQ(fitted("step 1 of 3", 11), "step 1 of ");  // the last column stays free
  EXPECT_EQ(fitted("step 1 of 3", 1), "");
  EXPECT_EQ(fitted("\u00e4\u00f6\u00fc", 3), "\u00e4\u00f6");  // by characters, not by bytes
}

}  // namespace
}  // namespace isobit::process
