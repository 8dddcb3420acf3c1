#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <thread>

#include "archive/files.h"
#include "archive/sha256.h"
#include "samples/data_files.h"
#include "samples/digest_cache.h"
#include "samples/sample_values.h"
#include "samples/source.h"

namespace isobit::samples {
namespace {

namespace fs = std::filesystem;

int no_reads(archive::FileAction action) { return action == archive::FileAction::read ? EIO : 0; }

class Identities : public testing::Test {
 protected:
  Identities() { ::setenv("XDG_CACHE_HOME", (folder_.path() / "cache").c_str(), 1); }
  ~Identities() override { ::unsetenv("XDG_CACHE_HOME"); }

  void put(const std::string& name, const std::string& content) const {
    write_text(folder_.path() / "data" / name, content);
  }
  Source text() const {
    Source source;
    source.format = "text";
    source.folder = folder_.path() / "data";
    source.file = "text";
    source.window = 1;
    return source;
  }
  // Whether the files' digests are known without reading them.
  bool is_cached(const Source& source) const {
    archive::inject_fault(no_reads);
    const std::string error = error_of([&] { (void)identify(source, Digests::cached); });
    archive::inject_fault(nullptr);
    return error.empty();
  }
  // A file's times are as they are remembered after two seconds; tests do not wait more often than they must.
  static void settle() { std::this_thread::sleep_for(std::chrono::milliseconds(3100)); }
  fs::path cache() const { return folder_.path() / "cache" / "isobit" / "digests.sqlite"; }
  ScratchFolder folder_;
};

TEST_F(Identities, NameEveryFileOfASource) {
  put("text", "abc");
  EXPECT_EQ(identify(text(), Digests::fresh), (std::vector<Identity>{{"text", 3, archive::sha256("abc")}}));
  put("images", "i");
  put("labels", "ll");
  Source idx = text();
  idx.format = "idx";
  idx.file = "images";
  idx.labels = "labels";
  EXPECT_EQ(identify(idx, Digests::cached),
            (std::vector<Identity>{{"images", 1, archive::sha256("i")}, {"labels", 2, archive::sha256("ll")}}));
  EXPECT_EQ(decoder(idx), "");
}

TEST_F(Identities, FoldersAreWhatSha256sumPrints) {
  put("train/b/x.png", "1");
  put("train/a-b/x\\y.png", "22");
  put("train/a/z.png", "333");
  put("list.csv", "file,label\na/z.png,0\n");
  Source images = text();
  images.format = "images";
  images.file = "train";
  const std::string list = "\\" + archive::sha256("22") + "  a-b/x\\\\y.png\n" + archive::sha256("333") +
                           "  a/z.png\n" + archive::sha256("1") + "  b/x.png\n";
  EXPECT_EQ(identify(images, Digests::fresh), (std::vector<Identity>{{"train/", 6, archive::sha256(list)}}));
  images.table = "list.csv";
  const std::string one = archive::sha256("333") + "  a/z.png\n";
  EXPECT_EQ(identify(images, Digests::fresh),
            (std::vector<Identity>{{"list.csv", 21, archive::sha256("file,label\na/z.png,0\n")},
                                   {"train/", 3, archive::sha256(one)}}));
  put("arrays/x.npy", "4");
  put("arrays/note.txt", "5");
  Source arrays = text();
  arrays.format = "npy";
  arrays.file = "arrays";
  EXPECT_EQ(identify(arrays, Digests::fresh),
            (std::vector<Identity>{{"arrays/", 1, archive::sha256(archive::sha256("4") + "  x.npy\n")}}));
}

TEST_F(Identities, AreCachedUntilTheFileChanges) {
  put("text", "abc");
  (void)identify(text(), Digests::cached);
  EXPECT_FALSE(is_cached(text()));  // it changed a moment ago
  settle();
  (void)identify(text(), Digests::cached);
  EXPECT_TRUE(is_cached(text()));

  // Another content of the same size, the time of modification set back: the time of change tells.
  struct stat before {};
  ASSERT_EQ(::stat((folder_.path() / "data" / "text").c_str(), &before), 0);
  const int file = ::open((folder_.path() / "data" / "text").c_str(), O_WRONLY);
  ASSERT_EQ(::write(file, "xyz", 3), 3);
  const timespec times[2] = {before.st_atim, before.st_mtim};
  ASSERT_EQ(::futimens(file, times), 0);
  ::close(file);
  EXPECT_EQ(identify(text(), Digests::cached)[0].sha256, archive::sha256("xyz"));

  settle();
  (void)identify(text(), Digests::fresh);  // remembers, but reads
  EXPECT_TRUE(is_cached(text()));
  archive::inject_fault(no_reads);
  EXPECT_NE(error_of([&] { (void)identify(text(), Digests::fresh); }), "");
  archive::inject_fault(nullptr);

  // The file's row, with one digit changed behind its check sum; then no database at all.
  std::string content = archive::read_file(cache());
  const auto at = content.find(archive::sha256("xyz"));
  ASSERT_NE(at, std::string::npos);
  content[at] = content[at] == '0' ? '1' : '0';
  archive::write_file(cache(), content);
  EXPECT_EQ(identify(text(), Digests::cached)[0].sha256, archive::sha256("xyz"));
  for (const std::string& damaged : {std::string("no database"), content.substr(0, 5000), std::string()}) {
    archive::write_file(cache(), damaged);
    EXPECT_EQ(identify(text(), Digests::cached)[0].sha256, archive::sha256("xyz"));
    EXPECT_TRUE(is_cached(text()));
  }
}

TEST_F(Identities, DoWithoutACache) {
  put("text", "abc");
  write_text(folder_.path() / "file", "");
  for (const std::string& home :
       {(folder_.path() / "file").string(), std::string("/proc/nowhere"), std::string("relative")}) {
    ::setenv("XDG_CACHE_HOME", home.c_str(), 1);
    EXPECT_EQ(identify(text(), Digests::cached)[0].sha256, archive::sha256("abc"));
  }
}

TEST_F(Identities, ProcessesShareTheCache) {
  put("images", "i");
  put("labels", "ll");
  Source idx = text();
  idx.format = "idx";
  idx.file = "images";
  idx.labels = "labels";
  settle();
  std::vector<pid_t> children;
  for (int i = 0; i < 6; ++i) {
    const pid_t child = ::fork();
    if (child == 0) {
      bool sound = true;
      const auto first = identify(idx, Digests::cached);
      for (int round = 0; round < 10; ++round) sound = sound && identify(idx, Digests::fresh) == first;
      ::_exit(sound ? 0 : 1);
    }
    children.push_back(child);
  }
  for (const pid_t child : children) {
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0);
  }
  EXPECT_TRUE(is_cached(idx));
}

TEST_F(Identities, MissingFilesAreNamed) {
  EXPECT_NE(error_of([&] { (void)identify(text(), Digests::cached); }).find("data/text"), std::string::npos);
}

}  // namespace
}  // namespace isobit::samples
