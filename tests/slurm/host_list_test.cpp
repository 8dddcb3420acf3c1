#include "slurm/host_list.h"

#include <gtest/gtest.h>

#include "slurm/refused.h"

namespace isobit::slurm {
namespace {

using Names = std::vector<std::string>;

TEST(HostList, WritesNamesOut) {
  EXPECT_EQ(expand_hosts("", "LIST"), Names());
  EXPECT_EQ(expand_hosts("n1", "LIST"), Names({"n1"}));
  EXPECT_EQ(expand_hosts("n[1-3,7],login", "LIST"), Names({"n1", "n2", "n3", "n7", "login"}));
  EXPECT_EQ(expand_hosts("login,n[2]", "LIST"), Names({"login", "n2"}));
  EXPECT_EQ(expand_hosts("gpu-a.b_c", "LIST"), Names({"gpu-a.b_c"}));
}

TEST(HostList, KeepsTheWidthOfTheFirstNumber) {
  EXPECT_EQ(expand_hosts("n[08-11]", "LIST"), Names({"n08", "n09", "n10", "n11"}));
  EXPECT_EQ(expand_hosts("n[8-11]", "LIST"), Names({"n8", "n9", "n10", "n11"}));
  EXPECT_EQ(expand_hosts("n[099-100,0]", "LIST"), Names({"n099", "n100", "n0"}));
  EXPECT_EQ(expand_hosts("n[000]", "LIST"), Names({"n000"}));
}

TEST(HostList, CountsTheLastBracketFastest) {
  EXPECT_EQ(expand_hosts("rack[0-1]node[01-02]-ib", "LIST"),
            Names({"rack0node01-ib", "rack0node02-ib", "rack1node01-ib", "rack1node02-ib"}));
  EXPECT_EQ(expand_hosts("[1-2][3-4]", "LIST"), Names({"13", "14", "23", "24"}));
}

TEST(HostList, RefusesWhatIsNoList) {
  for (const char* list : {"n[1-3",
                           "n1-3]",
                           "n[]",
                           "n[-3]",
                           "n[1-]",
                           "n[3-1]",
                           "n[a-b]",
                           "n[1,,2]",
                           "n1,,n2",
                           ",n1",
                           "n1,",
                           "n[1-3]]",
                           "n[[1-3]]",
                           "n[1 -3]",
                           "n 1",
                           "n[1-2](x2)",
                           "../n1",
                           "n[+1-3]",
                           "n[99999999999999999999]",
                           "n[1-2-3]"}) {
    EXPECT_NE(refused([&] { return expand_hosts(list, "LIST"); }).find("LIST: "), std::string::npos) << list;
  }
}

TEST(HostList, RefusesMoreNamesThanAnyClusterHas) {
  EXPECT_EQ(expand_hosts("n[1-65536]", "LIST").size(), kMostHosts);
  for (const char* list : {"n[1-65537]", "n[0-999]m[0-999]", "n[1-4611686018427387903]", "n[1-65536],m",
                           "a[0-9]b[0-9]c[0-9]d[0-9]e[0-9]f[0-9]g[0-9]h[0-9]i[0-9]"})
    EXPECT_NE(refused([&] { return expand_hosts(list, "LIST"); }).find("65536"), std::string::npos) << list;
}

// Few letters of a list may be many names, each as long as the rest of the list.
TEST(HostList, RefusesNamesLongerThanAnyHosts) {
  const std::string longest(kLongestHost - 1, 'a');
  EXPECT_EQ(expand_hosts(longest + "[0-9]", "LIST").back(), longest + "9");
  for (const std::string& list : {"a" + longest + "[0-9]", longest + "[0-9]b", "a[0-9]" + longest, "a" + longest + "a",
                                  "n[0-9]m[0-9]k[0-9]j[0-9]" + std::string(12'000, 'x')})
    EXPECT_NE(refused([&] { return expand_hosts(list, "LIST"); }).find("255 letters"), std::string::npos);
}

TEST(HostList, SplitsOutsideOfBrackets) {
  using Pieces = std::vector<std::string_view>;
  EXPECT_EQ(split_outside_brackets("a,b[1,2],c(x,y),d"), Pieces({"a", "b[1,2]", "c(x,y)", "d"}));
  EXPECT_EQ(split_outside_brackets("a,,"), Pieces({"a", "", ""}));
}

TEST(HostList, CountsAreDigitsAlone) {
  std::int64_t value = 0;
  EXPECT_TRUE(parse_count("007", value));
  EXPECT_EQ(value, 7);
  for (const char* text : {"", "-1", "+1", " 1", "1 ", "0x1", "1.0", "99999999999999999999", "4611686018427387905"})
    EXPECT_FALSE(parse_count(text, value)) << text;
}

}  // namespace
}  // namespace isobit::slurm
