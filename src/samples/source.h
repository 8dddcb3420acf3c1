// Opens a part of the data (training or test) in one of the formats, and says what identifies its files.
//
//   idx     images and labels of the MNIST family, plain or gzip (idx_reader.h): fields "images" uint8 [1, h, w], and
//           "labels" int64 [], or of masks int64 [h, w]
//   images  a folder of PNG or JPEG files, one folder in it per class (sorted by the bytes of their names), or a
//           table (CSV) with the columns file, group, weight and any labels: "images" uint8 [1 or 3, h, w], "labels"
//           int64 [], or of a table as those of csv
//   npy     a .npz file, or a folder of .npy files: each array a field, first dimension the samples; uint8 (bytes and
//           truth values as inputs), int64 (other whole numbers, and all of them as targets) or float32
//   csv     a table with a header: "inputs" float32 [columns], "targets" float32 [columns], or int64: [] of one column,
//           [columns] of several
//   text    bytes of a file in windows: "tokens" int64 [window], "next" int64 [window], the bytes one further on
//
// Components add formats of their own (data_format.h). Errors are archive::UserError naming file and place.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "samples/samples.h"

namespace isobit::samples {

struct Source {
  std::string format = "idx";
  std::string folder;  // data.path
  std::string file;    // in the folder: of images (idx), a folder (images), an array file, a table, a text
  std::string labels;  // idx: the file of labels
  std::string table;   // images: a CSV file in `folder` that lists them; empty: folders are classes
  std::vector<std::string> inputs, targets;  // fields (npy) or columns (csv, a table's labels); empty: the format's own
  std::string group, weight, count;          // column or field; empty: none
  std::int64_t window = 0;                   // text
  bool whole_targets = true;                 // csv, tables: targets are classes (int64), not numbers (float32)
  bool masks = false;                        // idx: labels are masks
  std::vector<std::string> settings = {};    // of a component's format: "key=value"
};

[[nodiscard]] std::shared_ptr<const Samples> open_source(const Source& source);

// A file, or a folder as the SHA-256 of the list "<sha256>  <path>\n" of its files, ascending by the bytes of their
// paths from the folder (what `sha256sum` prints).
struct Identity {
  std::string name;  // from Source::folder; of a folder with a slash at its end
  std::uint64_t size = 0;
  std::string sha256;
  friend bool operator==(const Identity&, const Identity&) = default;
};

enum class Digests {
  fresh,   // every file is read whole
  cached,  // a file whose device, inode, size, modification and change times are as before is not read again
};

// Of all files that the source reads.
[[nodiscard]] std::vector<Identity> identify(const Source& source, Digests digests);
// The library that decodes them, with its version, where that may matter ("libjpeg-turbo 2.1.5, libpng 1.6.39");
// else "".
[[nodiscard]] std::string decoder(const Source& source);

}  // namespace isobit::samples
