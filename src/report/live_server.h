// Serves one page on 127.0.0.1 to whoever knows its token, and to nobody else.
//
// A web page of another origin can make a browser send requests here; so the Host header must be this server's own
// address (a name that was made to resolve to 127.0.0.1 is refused: 403), and the path must begin with a random token
// of 128 bits (compared in constant time; anything else is 404). Only GET (else 405), only /TOKEN/ and
// /TOKEN/data.json: there are no files behind it. Headers above 8 KiB, bodies and slow clients are cut off; at most
// kMostConnections at once. HTTP by Boost.Beast. Errors are UserError.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

namespace isobit::report {

struct LiveRequest {
  std::string method, target, host;
};

struct LiveAnswer {
  int status = 404;
  std::string type = "text/plain; charset=utf-8", body;
};

// What the server shows.
struct LiveSource {
  std::function<std::string()> html;
  std::function<std::string(std::int64_t since)> changes;
};

// 32 hexadecimal digits from the system.
[[nodiscard]] std::string random_token();
// Takes as long for every text of the token's length.
[[nodiscard]] bool equal_in_constant_time(std::string_view a, std::string_view b);

// What a request gets from the server that listens at `port` with this token.
[[nodiscard]] LiveAnswer answer(const LiveRequest& request, const std::string& token, int port,
                                const LiveSource& source);

inline constexpr int kMostConnections = 32;

// Serves until SIGINT or SIGTERM comes. `port` of 0: one that is free. `ready` gets the page's address once it can be
// opened.
void serve(const LiveSource& source, int port, const std::function<void(const std::string& url)>& ready);

}  // namespace isobit::report
