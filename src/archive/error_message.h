// What an exception says to a person. No state; thread-safe.
#pragma once

#include <exception>
#include <string>

namespace isobit::archive {

// what(), without the stack frames that torch puts after its own.
[[nodiscard]] std::string message_of(const std::exception& error);

}  // namespace isobit::archive
