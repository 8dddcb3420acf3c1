// A folder that appears whole under its name, or not at all.
//
// Files are written into a temporary beside it, `.tmp-<name>-<8 hex>`, which goes with the object; commit() renames it.
// A folder that is there already is never replaced: UserError. One thread.
#pragma once

#include <filesystem>
#include <string>

namespace isobit::report {

class OutputFolder {
 public:
  explicit OutputFolder(const std::filesystem::path& folder);
  OutputFolder(const OutputFolder&) = delete;
  OutputFolder& operator=(const OutputFolder&) = delete;
  ~OutputFolder();

  // `name` may have folders before it.
  void write(const std::string& name, const std::string& text) const;
  // Where a file of this name lies until commit().
  [[nodiscard]] std::filesystem::path at(const std::string& name) const { return making_ / name; }
  void commit();

 private:
  std::filesystem::path folder_, making_;
};

}  // namespace isobit::report
