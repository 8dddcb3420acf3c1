#include "bench/disturbance.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <fstream>
#include <string>

namespace isobit::bench {
namespace {

// This process's children.
std::string children() {
  std::ifstream file("/proc/self/task/" + std::to_string(getpid()) + "/children");
  std::string ids;
  std::getline(file, ids);
  return ids;
}

// Ticks of a child's processor time: the 14th and 15th field after the name, which has no blank here.
long ticks(const std::string& id) {
  std::ifstream file("/proc/" + id + "/stat");
  std::string word;
  long user = 0, system = 0;
  for (int i = 0; i < 13; ++i) file >> word;
  file >> user >> system;
  return user + system;
}

TEST(Disturbance, LivesAsLongAsItsObject) {
  {
    const Disturbance none(0);
    EXPECT_EQ(children(), "");
  }
  {
    const Disturbance half(50);
    std::string id = children();
    ASSERT_NE(id, "");
    id = id.substr(0, id.find(' '));
    while (ticks(id) == 0) usleep(20'000);  // it works: a tick is 10 ms
  }
  EXPECT_EQ(children(), "");
  EXPECT_EQ(waitpid(-1, nullptr, WNOHANG), -1);
  EXPECT_EQ(errno, ECHILD);
}

// A program that is killed takes it along.
TEST(Disturbance, EndsWithItsParent) {
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  const pid_t parent = fork();
  if (parent == 0) {
    close(ends[0]);
    const Disturbance half(50);  // holds the pipe open as long as it lives
    _exit(0);
  }
  close(ends[1]);
  char byte;
  EXPECT_EQ(read(ends[0], &byte, 1), 0);
  close(ends[0]);
  EXPECT_EQ(waitpid(parent, nullptr, 0), parent);
}

}  // namespace
}  // namespace isobit::bench
