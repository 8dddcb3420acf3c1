#include "archive/printable.h"

#include <gtest/gtest.h>

#include <string>

namespace isobit::archive {
namespace {

TEST(Printable, OrdinaryTextStays) {
  for (const char* text : {"", "plain", "é ü ß", "日本語", "naïve “quotes” – dash", "😀", "a\\n"})
    EXPECT_EQ(printable(text), text);
  EXPECT_EQ(printable_lines("a\n\tb\n"), "a\n\tb\n");
}

TEST(Printable, WhatATerminalObeysOrHidesIsShown) {
  EXPECT_EQ(printable("\x1b[2K\ridentical: forged"), "\\x1b[2K\\ridentical: forged");
  EXPECT_EQ(printable("a\nb\tc"), "a\\nb\\tc");
  EXPECT_EQ(printable(std::string("a\0b", 3)), "a\\x00b");
  EXPECT_EQ(printable("\x7f"), "\\x7f");
  EXPECT_EQ(printable("\u009b31m"), "\\u009b31m");          // C1: CSI
  EXPECT_EQ(printable("\u202Egpj.exe"), "\\u202egpj.exe");  // right-to-left override
  EXPECT_EQ(printable("\u2066a\u2069"), "\\u2066a\\u2069");
  EXPECT_EQ(printable("a\u2028b\u200b"), "a\\u2028b\\u200b");
  EXPECT_EQ(printable("a\u3164\u115f\u2800\u034f\ufe0f"), "a\\u3164\\u115f\\u2800\\u034f\\ufe0f");  // blanks
  EXPECT_EQ(printable("\U000E0041"), "\\ue0041");  // a tag: invisible text
  EXPECT_EQ(printable_lines("a\r\nb"), "a\\r\nb");
}

TEST(Printable, BytesThatAreNoUtf8AreShown) {
  EXPECT_EQ(printable("\x80"), "\\x80");
  EXPECT_EQ(printable("\xc3"), "\\xc3");
  EXPECT_EQ(printable("\xc0\x8a"), "\\xc0\\x8a");                    // an overlong line end
  EXPECT_EQ(printable("\xed\xa0\x80"), "\\xed\\xa0\\x80");           // a surrogate
  EXPECT_EQ(printable("\xf4\x90\x80\x80"), "\\xf4\\x90\\x80\\x80");  // beyond Unicode
  EXPECT_EQ(printable("\x9b"
                      "31m"),
            "\\x9b31m");  // C1 as one byte
}

}  // namespace
}  // namespace isobit::archive
