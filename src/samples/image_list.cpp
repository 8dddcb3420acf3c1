#include "samples/image_list.h"

#include <fmt/format.h>

#include <filesystem>

#include "archive/files.h"
#include "archive/printable.h"
#include "archive/user_error.h"
#include "samples/reader.h"

namespace isobit::samples {
namespace {

namespace fs = std::filesystem;
using archive::UserError;

constexpr const char* kLayout = "images stand in one folder per class: FOLDER/cat/0001.png";

// Whether a name stays below its folder, and has one spelling.
bool stays_below(std::string_view path) {
  if (path.find('\0') != std::string_view::npos) return false;
  for (std::size_t begin = 0;;) {
    const std::size_t end = std::min(path.find('/', begin), path.size());
    const std::string_view part = path.substr(begin, end - begin);
    if (part.empty() || part == "." || part == "..") return false;
    if (end == path.size()) return true;
    begin = end + 1;
  }
}

}  // namespace

ImageList::ImageList(const Source& source) : name_(source.file), folder_(path_of(source, source.file)) {
  std::error_code error;
  if (!fs::is_directory(folder_, error)) {
    throw UserError(folder_, fs::exists(folder_, error) ? "not a folder" : "data folder missing",
                    "set data.path to the folder above it, and data.train to its name");
  }
  source.table.empty() ? list_folders() : list_table(source);
}

void ImageList::add(std::string_view path) {
  paths_ += path;
  ends_.push_back(paths_.size());
}

void ImageList::list_folders() {
  classes_ = archive::names_in(folder_);
  if (classes_.empty()) throw UserError(folder_, "is empty", kLayout);
  for (std::size_t label = 0; label < classes_.size(); ++label) {
    const fs::path folder = fs::path(folder_) / classes_[label];
    std::error_code error;
    if (!fs::is_directory(folder, error)) throw UserError(folder.string(), "is no folder of a class", kLayout);
    const std::vector<std::string> files = archive::names_in(folder);
    if (files.empty())
      throw UserError(folder.string(), "the folder of a class is empty", "remove it, or add its images");
    for (const std::string& file : files) {
      add(classes_[label] + "/" + file);
      labels_.push_back(static_cast<std::int32_t>(label));
    }
  }
}

void ImageList::list_table(const Source& source) {
  CsvTable table(path_of(source, source.table));
  table_.emplace(table, source, TableKind::images);
  const TextColumn& files = table_->files();
  std::size_t different = 0;  // texts so far
  for (std::size_t row = 0; row < files.size(); ++row) {
    const auto line = [&](std::size_t of) { return table_->line(static_cast<std::int64_t>(of)); };
    const auto refuse = [&](const std::string& problem, const char* remedy) {
      throw UserError(table.place(line(row), table.column("file")),
                      fmt::format("'{}' {}", archive::printable(files[row]), problem), remedy);
    };
    if (!stays_below(files[row]))
      refuse("is no name below the folder of images", "write names from that folder on, without . and ..");
    if (files.number(row) != different++)
      refuse(fmt::format("is on line {}, too", line(files.first_with(row))), "list every image once");
    add(files[row]);
  }
}

std::string_view ImageList::path(std::int64_t id) const {
  const auto at = static_cast<std::size_t>(id);
  const std::uint64_t begin = at == 0 ? 0 : ends_[at - 1];
  return std::string_view(paths_).substr(begin, ends_[at] - begin);
}

std::string ImageList::name(std::int64_t id) const { return (fs::path(name_) / path(id)).string(); }
std::string ImageList::full_path(std::int64_t id) const { return (fs::path(folder_) / path(id)).string(); }

}  // namespace isobit::samples
