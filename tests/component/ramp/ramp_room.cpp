// --ramp-room ROOM: runs the command line in a process of its own, which knows the room.
#include <algorithm>
#include <filesystem>

#include "archive/user_error.h"
#include "process/child_process.h"
#include "process/execution_place.h"

namespace isobit::process {
namespace {

int execute_in_room(const std::string& room, const std::vector<std::string>& words) {
  if (!std::all_of(room.begin(), room.end(), [](char c) { return c >= 'a' && c <= 'z'; }))
    throw archive::UserError("--ramp-room " + room, "there is no such room", "use small letters");
  ChildRequest request;
  request.words = {std::filesystem::read_symlink("/proc/self/exe").string()};
  request.words.insert(request.words.end(), words.begin(), words.end());
  request.environment = {"ISOBIT_RAMP_ROOM=" + room};
  request.with_user = true;
  const ChildResult result = run_child(request);
  std::fwrite(result.output.data(), 1, result.output.size(), stdout);
  return result.code;
}

const ExecutionPlaceRegistration ramp_room(
    {.option = "--ramp-room", .type = "ROOM", .help = "Run it in this room", .execute = execute_in_room});

}  // namespace
}  // namespace isobit::process
