// A run that the user named: a folder, an id, the beginning of one or "last" of the archive, or a file written by
// isobit export, which is unpacked into a folder that goes with the object. UserError where there is none.
#pragma once

#include <filesystem>
#include <memory>
#include <string>

#include "archive/run_export.h"

namespace isobit::archive {

class NamedRun {
 public:
  // `runs`: the archive's folder as the option gave it ("": the default). `into`: an exported file is unpacked there,
  // and stays; UserError where the word is none ("": into a folder that goes with the object). `copy`: a copy of such a
  // file that is unpacked in its place ("": none), under the word's name in messages.
  NamedRun(const std::string& word, const std::string& runs, const std::string& into = "",
           const std::string& copy = "");

  [[nodiscard]] const std::filesystem::path& folder() const { return folder_; }
  // As messages name it: the folder, or the exported file whose folder goes.
  [[nodiscard]] const std::string& name() const { return name_; }

 private:
  std::unique_ptr<archive::TemporaryFolder> unpacked_;
  std::filesystem::path folder_;
  std::string name_;
};

}  // namespace isobit::archive
