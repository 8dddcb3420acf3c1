// What a program that is executed again reports, with the record that it leaves: all said by code that is judged. The
// first byte says how the bytes are cut; what is heard may not depend on that.
#include <algorithm>
#include <memory>

#include "archive/files.h"
#include "archive/output_file.h"
#include "archive/tar_file.h"
#include "fuzz/target.h"
#include "fuzz/targets.h"
#include "proof/second_record.h"

namespace isobit::fuzz {
namespace {

namespace fs = std::filesystem;
using proof::Reports;

constexpr std::uint64_t kMost = 64 << 10;
constexpr std::string_view kRecord = "\nrecord\n";

struct Heard {
  fs::path folder;
  std::unique_ptr<Reports> reports;
  bool all = true;
};

Heard hear(const char* name, std::string_view text, std::size_t piece) {
  Heard heard;
  heard.folder = scratch() / name;
  fs::remove_all(heard.folder);
  fs::create_directories(heard.folder);
  heard.reports = std::make_unique<Reports>(heard.folder, kMost);
  for (; !text.empty() && heard.all; text.remove_prefix(std::min(piece, text.size())))
    heard.all = heard.reports->hear(text.substr(0, piece));
  return heard;
}

void look(const Heard& heard) {
  try {
    const archive::RunRecord record = heard.reports->record(false);
    require(heard.reports->records() == 1 && heard.reports->ended().has_value(), "one record of an ended program");
    require(record.summary().steps == static_cast<std::int64_t>(record.steps().size()), "steps are counted");
  } catch (const archive::UserError& error) {
    require(!error.problem().empty(), "an error names its problem");
  }
  const fs::path tar = heard.folder / "record.tar";
  require(!fs::exists(tar) || fs::file_size(tar) <= kMost, "no more is kept than may be");
  for (const auto& entry : fs::directory_iterator(heard.folder))
    require(entry.path().filename() == "record.tar" || entry.path().filename() == "second", "nothing else is written");
}

void listen(std::size_t piece, std::string_view text) {
  const Heard one = hear("reports-1", text, piece), other = hear("reports-2", text, text.size());
  const Reports &a = *one.reports, &b = *other.reports;
  require(one.all == other.all && a.step() == b.step() && a.ended() == b.ended() && a.records() == b.records() &&
              a.too_large() == b.too_large(),
          "what is heard does not depend on how it comes");
  look(one);
}

}  // namespace

// As it is, and with the check sums that the tar file's headers have.
void run_reports(std::string_view input) {
  if (input.empty()) return;
  const std::size_t piece = 1 + static_cast<unsigned char>(input[0]) * 7u;
  const std::string_view text = input.substr(1);
  listen(piece, text);
  const std::size_t record = text.find(kRecord);
  if (record == std::string_view::npos) return;
  std::string tar(text.substr(record + kRecord.size()));
  make_sums(tar);
  listen(piece, std::string(text.substr(0, record)) + std::string(kRecord) + tar);
}

std::vector<std::string> reports_seeds() {
  std::vector<archive::TarEntry> entries;
  for (const auto& [name, content] : sound_record()) entries.push_back({name, content, {}});
  const auto packed = [](const std::vector<archive::TarEntry>& content) {
    const fs::path file = scratch() / "reported.tar";
    fs::remove(file);
    archive::OutputFile out(file);
    archive::write_tar(out, content);
    out.commit();
    return archive::read_file(file);
  };
  const std::string said = "step 1\nstep 8\nended 0\nrecords 1\nrecord\n";
  std::vector<std::string> seeds = {"\x05" + said + packed(entries),
                                    "\x40" + said + packed({entries[0]}),
                                    "\x02" + said,
                                    "\x09step 9223372036854775807\nended -9\nrecords 0\n",
                                    "\x01step 1 \n",
                                    "\xff" + said + std::string(kMost + 1, 'x')};
  const Heard sound = hear("reports-1", std::string_view(seeds[0]).substr(1), 100);
  require(sound.reports->record(false).steps().size() == 8, "the first is a sound record");
  require(seeds[0].size() <= kLongestChanged, "it is short enough to be changed");
  return seeds;
}

}  // namespace isobit::fuzz
