// The committed fingerprints, kernels.txt and functions.txt: lines of `name fingerprint`; # starts a comment.
#pragma once

#include <fstream>
#include <map>
#include <sstream>
#include <string>

namespace isobit::golden {

inline std::map<std::string, std::string> read_golden(const char* path) {
  std::map<std::string, std::string> values;
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    std::istringstream fields(line);
    std::string name, value;
    if (fields >> name >> value && name[0] != '#') values[name] = value;
  }
  return values;
}

}  // namespace isobit::golden
