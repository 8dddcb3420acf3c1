#include "report/live_server.h"

#include <fmt/format.h>
#include <sys/random.h>

#include <array>
#include <cerrno>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/signal_set.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/core/tcp_stream.hpp>
#include <boost/beast/http.hpp>
#include <charconv>
#include <chrono>
#include <csignal>
#include <memory>
#include <optional>

#include "archive/user_error.h"
#include "report/page.h"

namespace isobit::report {
namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = boost::beast::http;
using archive::UserError;
using asio::ip::tcp;

constexpr auto kPatience = std::chrono::seconds(10);
constexpr std::uint32_t kLongestHeader = 8 << 10;

struct Shared {
  const LiveSource& source;
  std::string token;
  int port = 0;
  int connections = 0;
};

// One connection: a request, its answer, and so on until the client closes, is too slow, or sends what is no request.
class Connection : public std::enable_shared_from_this<Connection> {
 public:
  Connection(tcp::socket socket, Shared& shared) : stream_(std::move(socket)), shared_(shared) {
    shared_.connections += 1;
  }
  ~Connection() { shared_.connections -= 1; }
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  void read() {
    parser_.emplace();
    parser_->header_limit(kLongestHeader);
    parser_->body_limit(std::uint64_t{0});
    stream_.expires_after(kPatience);
    http::async_read(stream_, buffer_, *parser_, [self = shared_from_this()](beast::error_code error, std::size_t) {
      if (!error) self->write();
    });
  }

 private:
  void write() {
    const auto& request = parser_->get();
    const LiveAnswer given = answer(
        {std::string(request.method_string()), std::string(request.target()), std::string(request[http::field::host])},
        shared_.token, shared_.port, shared_.source);
    response_ = {};
    response_.version(11);
    response_.result(static_cast<unsigned>(given.status));
    response_.set(http::field::content_type, given.type);
    response_.set(http::field::cache_control, "no-store");
    response_.set("X-Content-Type-Options", "nosniff");
    response_.set("Referrer-Policy", "no-referrer");
    response_.set("Cross-Origin-Resource-Policy", "same-origin");
    response_.set("Content-Security-Policy", policy({.live = true}) + "; frame-ancestors 'none'");
    if (given.status == 405) response_.set(http::field::allow, "GET");
    response_.keep_alive(request.keep_alive() && given.status == 200);
    response_.body() = given.body;
    response_.prepare_payload();
    stream_.expires_after(kPatience);
    http::async_write(stream_, response_, [self = shared_from_this()](beast::error_code error, std::size_t) {
      if (!error && self->response_.keep_alive()) return self->read();
      beast::error_code ignored;
      self->stream_.socket().shutdown(tcp::socket::shutdown_send, ignored);
    });
  }

  beast::tcp_stream stream_;
  Shared& shared_;
  beast::flat_buffer buffer_{kLongestHeader * 2};
  std::optional<http::request_parser<http::string_body>> parser_;
  http::response<http::string_body> response_;
};

class Listener {
 public:
  Listener(asio::io_context& io, Shared& shared, tcp::acceptor& acceptor)
      : io_(io), shared_(shared), acceptor_(acceptor) {}

  void accept() {
    acceptor_.async_accept(io_, [this](beast::error_code error, tcp::socket socket) {
      if (error == asio::error::operation_aborted) return;
      if (!error && shared_.connections < kMostConnections)
        std::make_shared<Connection>(std::move(socket), shared_)->read();
      accept();
    });
  }

 private:
  asio::io_context& io_;
  Shared& shared_;
  tcp::acceptor& acceptor_;
};

std::int64_t since_of(std::string_view query) {
  constexpr std::string_view kKey = "since=";
  std::int64_t since = 0;
  if (query.starts_with(kKey)) {
    const std::string_view digits = query.substr(kKey.size());
    const auto read = std::from_chars(digits.data(), digits.data() + digits.size(), since);
    if (read.ec != std::errc() || read.ptr != digits.data() + digits.size()) return 0;
  }
  return since;
}

}  // namespace

std::string random_token() {
  std::array<unsigned char, 16> bytes{};
  std::size_t filled = 0;
  while (filled < bytes.size()) {
    const ssize_t got = ::getrandom(bytes.data() + filled, bytes.size() - filled, 0);
    if (got < 0 && errno != EINTR) throw UserError("isobit watch", "the system gives no random numbers", "");
    if (got > 0) filled += static_cast<std::size_t>(got);
  }
  std::string token;
  for (const unsigned char byte : bytes) token += fmt::format("{:02x}", byte);
  return token;
}

bool equal_in_constant_time(std::string_view a, std::string_view b) {
  if (a.size() != b.size()) return false;
  unsigned difference = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    difference |= static_cast<unsigned>(static_cast<unsigned char>(a[i]) ^ static_cast<unsigned char>(b[i]));
  }
  return difference == 0;
}

LiveAnswer answer(const LiveRequest& request, const std::string& token, int port, const LiveSource& source) {
  if (request.host != fmt::format("127.0.0.1:{}", port) && request.host != fmt::format("localhost:{}", port))
    return {.status = 403, .body = "this server answers at its own address alone\n"};
  if (request.method != "GET") return {.status = 405, .body = "GET alone\n"};
  const LiveAnswer nothing{.status = 404,
                           .body = "there is nothing here: open the address that isobit watch printed\n"};
  const std::string_view target = request.target;
  if (target.size() < token.size() + 2 || target[0] != '/' || target[token.size() + 1] != '/') return nothing;
  if (!equal_in_constant_time(target.substr(1, token.size()), token)) return nothing;
  const std::string_view rest = target.substr(token.size() + 2);
  const std::string_view name = rest.substr(0, rest.find('?'));
  const std::string_view query = name.size() == rest.size() ? "" : rest.substr(name.size() + 1);
  try {
    if (name.empty()) return {200, "text/html; charset=utf-8", source.html()};
    if (name == "data.json") return {200, "application/json", source.changes(since_of(query))};
  } catch (const std::exception& error) {  // the archive went away, for one
    return {.status = 500, .body = std::string(error.what()) + "\n"};
  }
  return nothing;
}

void serve(const LiveSource& source, int port, const std::function<void(const std::string&)>& ready) try {
  asio::io_context io(1);
  tcp::acceptor acceptor(io);
  beast::error_code error;
  acceptor.open(tcp::v4());
  acceptor.set_option(tcp::acceptor::reuse_address(true));
  acceptor.bind({asio::ip::address_v4::loopback(), static_cast<std::uint16_t>(port)}, error);
  if (error) {
    throw UserError(fmt::format("127.0.0.1:{}", port), fmt::format("cannot listen there: {}", error.message()),
                    "name another port with --port, or none");
  }
  acceptor.listen();
  Shared shared{source, random_token(), acceptor.local_endpoint().port()};
  asio::signal_set signals(io, SIGINT, SIGTERM);
  signals.async_wait([&](beast::error_code failed, int) {
    if (!failed) io.stop();
  });
  Listener listener(io, shared, acceptor);
  listener.accept();
  ready(fmt::format("http://127.0.0.1:{}/{}/", shared.port, shared.token));
  io.run();
} catch (const boost::system::system_error& error) {
  throw UserError("isobit watch", error.what(), "");
}

}  // namespace isobit::report
