// run/mesh/sockets.hpp: where ranks meet rank 0: TCP, or a Unix socket that only this user's processes may use.
#pragma once

#include <fcntl.h>
#include <ifaddrs.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <memory>
#include <string>
#include <utility>

#include "../../base/config.hpp"
#include "../../base/error.hpp"
#include "../../base/series.hpp"
#include "../descriptor.hpp"

namespace sinter::engine::run {

/// Where rank 0 listens: at a port of these hosts, tried in turn; without hosts, at a Unix socket of this user.
struct meeting_point {
  series<std::string> hosts;
  int port = 0;
};

namespace detail {

/// 32 bytes that nobody can guess.
inline std::string random_bytes() {
  std::string out(32, '\0');
  std::size_t got = 0;
  while (got < out.size()) {
    const auto n = ::getrandom(out.data() + got, out.size() - got, 0);
    if (n < 0 && errno != EINTR)
      throw system_error("[make_mesh] no random numbers: " + std::string(std::strerror(errno)));
    if (n > 0) got += static_cast<std::size_t>(n);
  }
  return out;
}

/// The secret of SINTER_MESH_SECRET; empty if it is not set. user_error for anything but 64 hexadecimal digits.
inline std::string secret_of_environment() {
  const std::string text = environment("SINTER_MESH_SECRET");
  if (text.empty()) return "";
  const auto digit = [](char c) { return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1; };
  std::string out;
  for (std::size_t k = 0; k + 1 < text.size(); k += 2)
    if (digit(text[k]) >= 0 && digit(text[k + 1]) >= 0)
      out += static_cast<char>(digit(text[k]) * 16 + digit(text[k + 1]));
  if (text.size() != 64 || out.size() != 32)
    fail("make_mesh",
         "SINTER_MESH_SECRET has " + std::to_string(text.size()) +
             " characters or others than 0 to 9 and a to f; set it on every rank to the same 64 hexadecimal digits, as "
             "`openssl rand -hex 32` prints",
         location{});
  return out;
}

struct resolved {
  addrinfo* first = nullptr;
  std::string problem;
  resolved(const char* host, int port, int flags) {
    addrinfo wanted{};
    wanted.ai_family = AF_UNSPEC;
    wanted.ai_socktype = SOCK_STREAM;
    wanted.ai_flags = flags;
    if (const int e = ::getaddrinfo(host, std::to_string(port).c_str(), &wanted, &first)) problem = ::gai_strerror(e);
  }
  ~resolved() {
    if (first) ::freeaddrinfo(first);
  }
  resolved(const resolved&) = delete;
  resolved& operator=(const resolved&) = delete;
};

inline bool is_loopback(const sockaddr* a) {
  if (a->sa_family == AF_INET) return ntohl(reinterpret_cast<const sockaddr_in*>(a)->sin_addr.s_addr) >> 24 == 127;
  return a->sa_family == AF_INET6 && IN6_IS_ADDR_LOOPBACK(&reinterpret_cast<const sockaddr_in6*>(a)->sin6_addr);
}
/// Whether all addresses of a host are this machine's loopback.
inline bool is_loopback_host(const std::string& host) {
  const resolved r(host.c_str(), 0, 0);
  for (const addrinfo* a = r.first; a; a = a->ai_next)
    if (!is_loopback(a->ai_addr)) return false;
  return r.first != nullptr;
}

/// This machine's addresses, for ranks of other hosts.
inline series<std::string> own_addresses() {
  series<std::string> out;
  ifaddrs* all = nullptr;
  if (::getifaddrs(&all) != 0) return out;
  for (const ifaddrs* i = all; i; i = i->ifa_next) {
    if (!i->ifa_addr || is_loopback(i->ifa_addr)) continue;
    const int family = i->ifa_addr->sa_family;
    if (family != AF_INET && family != AF_INET6) continue;
    char text[NI_MAXHOST];
    const auto bytes = static_cast<socklen_t>(family == AF_INET ? sizeof(sockaddr_in) : sizeof(sockaddr_in6));
    if (::getnameinfo(i->ifa_addr, bytes, text, sizeof text, nullptr, 0, NI_NUMERICHOST) == 0) out.push_back(text);
  }
  ::freeifaddrs(all);
  return out;
}

/// The name of a Unix socket without a file.
inline std::pair<sockaddr_un, socklen_t> name_of_unix_socket(int port) {
  sockaddr_un a{};
  a.sun_family = AF_UNIX;
  const std::string name = "sinter-mesh-" + std::to_string(::getuid()) + "-" + std::to_string(port);
  std::memcpy(a.sun_path + 1, name.data(), name.size());
  return {a, static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size())};
}
inline bool is_of_this_user(int fd) {
  ucred who{};
  socklen_t bytes = sizeof who;
  return ::getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &who, &bytes) == 0 && who.uid == ::getuid();
}

inline void do_not_wait(int fd) {
  ::fcntl(fd, F_SETFL, ::fcntl(fd, F_GETFL) | O_NONBLOCK);
  const int on = 1;
  ::setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);  // no effect on a Unix socket
}

inline file_handle listen_on(const sockaddr* a, socklen_t bytes, int family) {
  file_handle fd(::socket(family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  const int on = 1;
  if (fd && family != AF_UNIX) ::setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  if (!fd || ::bind(fd.get(), a, bytes) != 0 || ::listen(fd.get(), 128) != 0) return file_handle();
  return fd;
}

inline int port_of(int fd) {
  sockaddr_storage a{};
  socklen_t bytes = sizeof a;
  if (::getsockname(fd, reinterpret_cast<sockaddr*>(&a), &bytes) != 0) return 0;
  return ntohs(a.ss_family == AF_INET6 ? reinterpret_cast<const sockaddr_in6*>(&a)->sin6_port
                                       : reinterpret_cast<const sockaddr_in*>(&a)->sin_port);
}

/// Listens at a meeting point; port 0 is replaced by a free one. system_error where another program listens already.
inline file_handle listen_at(meeting_point& at) {
  file_handle fd;
  if (at.hosts.empty()) {
    const auto name = name_of_unix_socket(at.port);
    fd = listen_on(reinterpret_cast<const sockaddr*>(&name.first), name.second, AF_UNIX);
  } else {
    // At the given host if that is an address of this machine, else at all of its addresses.
    for (const char* host : {at.hosts[0].c_str(), "::", "0.0.0.0"}) {
      const resolved r(host, at.port, AI_PASSIVE);
      for (const addrinfo* a = r.first; a && !fd; a = a->ai_next)
        fd = listen_on(a->ai_addr, a->ai_addrlen, a->ai_family);
      if (fd || errno == EADDRINUSE) break;
    }
    if (fd) at.port = port_of(fd.get());
  }
  if (!fd)
    throw system_error("[make_mesh] rank 0 cannot listen at port " + std::to_string(at.port) + ": " +
                       std::strerror(errno) + "; give SINTER_ADDR another port");
  return fd;
}

/// Connects to a meeting point, or returns none.
inline file_handle connect_to(const meeting_point& at) {
  const auto tried = [](const sockaddr* a, socklen_t bytes, int family) {
    file_handle fd(::socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0));
    // Applies to connect() too.
    const timeval limit{5, 0};
    if (fd) ::setsockopt(fd.get(), SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
    if (fd) ::setsockopt(fd.get(), SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    if (!fd || ::connect(fd.get(), a, bytes) != 0) return file_handle();
    return fd;
  };
  if (at.hosts.empty()) {
    const auto name = name_of_unix_socket(at.port);
    file_handle fd = tried(reinterpret_cast<const sockaddr*>(&name.first), name.second, AF_UNIX);
    if (fd && !is_of_this_user(fd.get())) throw system_error("[make_mesh] another user listens in place of rank 0");
    return fd;
  }
  for (const auto& host : at.hosts) {
    const resolved r(host.c_str(), at.port, 0);
    for (const addrinfo* a = r.first; a; a = a->ai_next)
      if (file_handle fd = tried(a->ai_addr, a->ai_addrlen, a->ai_family)) return fd;
  }
  return file_handle();
}

/// Writes all, or reads exactly that many bytes, within the socket's time limits.
inline bool send_all(int fd, std::string_view bytes) {
  while (!bytes.empty()) {
    const auto n = ::send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return false;
    bytes.remove_prefix(static_cast<std::size_t>(n));
  }
  return true;
}
inline bool receive_all(int fd, std::string& to, std::size_t bytes) {
  to.resize(bytes);
  std::size_t got = 0;
  while (got < bytes) {
    const auto n = ::recv(fd, to.data() + got, bytes - got, 0);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return false;
    got += static_cast<std::size_t>(n);
  }
  return true;
}

}  // namespace detail
}  // namespace sinter::engine::run
