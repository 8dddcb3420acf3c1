#include "proof/script_plan.h"

#include <stdexcept>

#include "archive/json_text.h"

namespace isobit::proof {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

constexpr std::size_t kMostWords = 1 << 16;
constexpr std::int64_t kMostProcesses = 1024;  // isobit._proof._verify has a smaller limit, of what it starts

void expect(bool holds, const char* what) {
  if (!holds) throw std::invalid_argument(what);
}

// As a program's argument it would end at its first NUL.
std::string word(const Json& json) {
  auto text = json.get<std::string>();
  expect(text.find('\0') == std::string::npos, "a word with a NUL");
  return text;
}

std::string absolute(const Json& json) {
  std::string path = word(json);
  expect(path.starts_with('/'), "a path that is not absolute");
  return path;
}

std::string within(const Json& json) {
  std::string path = word(json);
  expect(!path.starts_with('/'), "a path that leaves the program's folder");
  for (const fs::path& part : fs::path(path)) expect(part != "..", "a path that leaves the program's folder");
  return path;
}

template <class Read>
std::vector<std::string> all(const Json& json, const Read& read) {
  expect(json.is_array() && json.size() <= kMostWords, "no list, or too long a one");
  std::vector<std::string> words;
  for (const Json& each : json) words.push_back(read(each));
  return words;
}

}  // namespace

ScriptPlan parse_plan(std::string_view text) {
  const Json object = archive::parse_json(text);
  ScriptPlan plan;
  plan.python = absolute(object.at("python"));
  plan.file = within(object.at("file"));
  expect(!plan.file.empty(), "no script");
  plan.folder = within(object.at("folder"));
  plan.beside = object.at("beside") == "" ? "" : absolute(object.at("beside"));
  expect(object.at("seeded").is_boolean(), "no truth value");
  plan.seeded = object.at("seeded").get<bool>();
  plan.processes = archive::integer<std::int64_t>(object.at("processes"));
  expect(plan.processes >= 1 && plan.processes <= kMostProcesses, "a count of processes that is none");
  plan.arguments = all(object.at("arguments"), word);
  plan.instead = word(object.at("instead"));
  plan.unused = all(object.at("unused"), word);
  plan.readable = all(object.at("readable"), absolute);
  plan.hidden = all(object.at("hidden"), absolute);
  plan.own = all(object.at("own"), absolute);
  const Json& links = object.at("links");
  expect(links.is_array() && links.size() <= kMostWords, "no list, or too long a one");
  for (const Json& link : links) {
    expect(link.is_array() && link.size() == 2, "no pair");
    plan.links.emplace_back(absolute(link[0]), word(link[1]));
  }
  const Json& environment = object.at("environment");
  expect(environment.is_object(), "no object");
  for (const auto& [name, value] : environment.items()) {
    expect(!name.empty() && name.find_first_of(std::string_view("=\0", 2)) == std::string::npos, "no variable's name");
    plan.environment.push_back(name + "=" + word(value));
  }
  return plan;
}

}  // namespace isobit::proof
