// Values of the JSON that Slurm's programs print: a number is 5, or since 23.11 {"set": true, "number": 5}; a state is
// a word, or since 23.02 a list of words. Not a public header: it names nlohmann-json.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace isobit::slurm {

// One of the objects in the list that an answer consists of.
class Entry {
 public:
  Entry(const nlohmann::json& object, std::string place);

  // "", 0, false or none where it is missing or null; UserError where it is something else.
  [[nodiscard]] std::string text(const char* key) const;
  [[nodiscard]] std::int64_t number(const char* key) const;
  [[nodiscard]] std::vector<std::string> words(const char* key) const;  // one word alone is a list of one

 private:
  [[nodiscard]] const nlohmann::json* find(const char* key) const;
  [[noreturn]] void refuse(const char* key, const char* expected) const;

  const nlohmann::json& object_;
  std::string place_;
};

// The objects of the list `key`. UserError, with what Slurm itself reports, where there is none.
class Answer {
 public:
  Answer(std::string_view text, const char* program, const char* key);
  [[nodiscard]] std::vector<Entry> entries() const;

 private:
  nlohmann::json document_;
  std::string program_, key_;
};

}  // namespace isobit::slurm
