#include "archive/sha256.h"

#include "small_run.h"

namespace isobit::archive {
namespace {

// FIPS 180-4's examples, the empty message, and one of a million letters (NIST's test vectors).
TEST(Sha256, KnownAnswers) {
  EXPECT_EQ(sha256(""), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(sha256("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(sha256("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq"),
            "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
  EXPECT_EQ(sha256(std::string(1'000'000, 'a')), "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

TEST(Sha256, PiecesCopiesAndFilesAgree) {
  const std::string text(100'000, 'x');
  Sha256 hash;
  std::string before;
  for (std::size_t at = 0; at < text.size(); at += 777) {
    hash.update(std::string_view(text).substr(at, 777));
    before = hash.hex();  // asking changes nothing
  }
  EXPECT_EQ(before, sha256(text));
  const Sha256 copy(hash);
  hash.update("more");
  EXPECT_EQ(copy.hex(), sha256(text));
  EXPECT_EQ(hash.hex(), sha256(text + "more"));

  const Scratch scratch;
  overwrite(scratch.path() / "file", text);
  EXPECT_EQ(digest_file(scratch.path() / "file").sha256, sha256(text));
  EXPECT_EQ(digest_file(scratch.path() / "file").size, text.size());
  EXPECT_NE(error_of([&] { static_cast<void>(digest_file(scratch.path())); }).find("not a regular file"),
            std::string::npos);
  EXPECT_NE(error_of([&] { static_cast<void>(digest_file(scratch.path() / "none")); }).find("no such file"),
            std::string::npos);
}

}  // namespace
}  // namespace isobit::archive
