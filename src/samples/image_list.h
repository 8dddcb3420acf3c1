// The files of an image source (source.h, "images"): a folder with a folder per class, or a table that lists them.
//
// Errors are archive::UserError: a folder that is missing, empty or has something else in it; a listed name that leads
// out of its folder or occurs twice. Immutable; thread-safe.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "samples/source.h"
#include "samples/table_columns.h"

namespace isobit::samples {

class ImageList {
 public:
  explicit ImageList(const Source& source);

  [[nodiscard]] std::int64_t count() const { return static_cast<std::int64_t>(ends_.size()); }
  // From the folder of images: "cat/0001.png".
  [[nodiscard]] std::string_view path(std::int64_t id) const;
  // From Source::folder: "train/cat/0001.png".
  [[nodiscard]] std::string name(std::int64_t id) const;
  [[nodiscard]] std::string full_path(std::int64_t id) const;
  [[nodiscard]] const std::string& folder() const { return folder_; }

  // Of folders, else empty.
  [[nodiscard]] const std::vector<std::string>& classes() const { return classes_; }
  [[nodiscard]] std::int64_t class_of(std::int64_t id) const { return labels_[static_cast<std::size_t>(id)]; }
  // Of a table.
  [[nodiscard]] const std::optional<TableRows>& table() const { return table_; }

 private:
  void list_folders();
  void list_table(const Source& source);
  void add(std::string_view path);

  std::string name_, folder_;
  std::string paths_;                // one after the other: millions of texts of their own would take far more
  std::vector<std::uint64_t> ends_;  // in paths_
  std::vector<std::int32_t> labels_;
  std::vector<std::string> classes_;
  std::optional<TableRows> table_;
};

}  // namespace isobit::samples
