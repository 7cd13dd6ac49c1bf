// run/mesh/channel.hpp: the control channel: a thread of each rank that keeps its ledger. Ranks are connected to rank 0.
#pragma once

#include <poll.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "../helper_signals.hpp"
#include "ledger.hpp"
#include "sockets.hpp"
#include "wire.hpp"

namespace sinter::engine::run {

class control_channel {
 public:
  /// Rank 0 gives the listening socket. The others connect, and prove the secret.
  control_channel(rank_ledger& ledger, meeting_point at, std::string secret, detail::file_handle listener)
      : ledger_(ledger),
        at_(std::move(at)),
        secret_(std::move(secret)),
        listener_(std::move(listener)),
        peers_(static_cast<std::size_t>(ledger.size())) {
    int ends[2];
    if (::pipe2(ends, O_CLOEXEC | O_NONBLOCK) != 0)
      throw system_error("[make_mesh] the control channel lacks a file descriptor");
    woken_ = detail::file_handle(ends[0]);
    wake_ = detail::file_handle(ends[1]);
    if (ledger_.rank() != 0) connect();
    ledger_.on_send([this] { wake(); });
    const helper_signals left_alone;
    thread_ = std::thread([this] { work(); });
  }
  control_channel(const control_channel&) = delete;
  control_channel& operator=(const control_channel&) = delete;
  ~control_channel() {
    deadline_ = clock::now() + std::chrono::seconds(2);
    stop_.store(true);
    wake();
    thread_.join();
    ledger_.on_send({});
  }

 private:
  using clock = std::chrono::steady_clock;
  static constexpr std::size_t max_strangers = 64, max_waiting = std::size_t{256} << 20,
                               max_ahead = std::size_t{1} << 20;  ///< of bundles
  static constexpr std::chrono::seconds patience{10};             ///< with a stranger

  struct connection {
    detail::file_handle fd;
    int rank = -1;               ///< of the other side, once proven
    std::string begun, greeted;  ///< what a stranger sent; its hello
    std::string nonce;
    clock::time_point since = clock::now();
    std::optional<frame_reader> in;
    std::optional<frame_signer> signer;
    std::string to_send;
    std::size_t sent = 0;

    void prove(std::string_view secret, int other, bool is_root) {
      const std::string key = proof(secret, of_session, greeted, nonce);
      rank = other;
      in.emplace(frame_signer(key, is_root));
      signer.emplace(key, !is_root);
      detail::do_not_wait(fd.get());
    }
  };

  void wake() const {
    static_cast<void>(!::write(wake_.get(), "", 1));  // a full pipe wakes as well
  }

  /// A rank's way to rank 0, which may not listen yet.
  void connect() {
    const auto start = clock::now();
    const double limit = environment_seconds("SINTER_MESH_TIMEOUT", 600);
    bool told = false;
    for (;;) {
      auto c = std::make_unique<connection>();
      c->fd = detail::connect_to(at_);
      if (c->fd && greet(*c)) {
        ledger_.join(0);
        peers_[0] = std::move(c);
        return;
      }
      const double waited = std::chrono::duration<double>(clock::now() - start).count();
      if (waited > limit)
        throw system_error("[make_mesh] rank " + std::to_string(ledger_.rank()) + " did not reach rank 0 at " +
                           where() + " within SINTER_MESH_TIMEOUT; is rank 0 started, and is SINTER_ADDR its host?");
      if (waited > rank_ledger::silence() * 2 / 3 && !std::exchange(told, true))
        logs::write("warning", "rank " + std::to_string(ledger_.rank()) + " waits for rank 0 at " + where());
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
    }
  }
  /// False if the other side hangs up; system_error if it does not know the secret.
  bool greet(connection& c) {
    c.nonce = detail::random_bytes();
    c.greeted = hello::text(ledger_.rank(), ledger_.size(), c.nonce);
    std::string reply;
    if (!detail::send_all(c.fd.get(), c.greeted) || !detail::receive_all(c.fd.get(), reply, challenge_bytes))
      return false;
    c.nonce = reply.substr(0, hello::nonce_bytes);
    if (!equal_in_constant_time(reply.substr(hello::nonce_bytes), proof(secret_, of_root, c.greeted, c.nonce)))
      throw system_error("[make_mesh] what listens at " + where() +
                         " does not know the secret; set SINTER_MESH_SECRET to the same text on all ranks");
    if (!detail::send_all(c.fd.get(), proof(secret_, of_rank, c.greeted, c.nonce))) return false;
    c.prove(secret_, 0, false);
    return true;
  }
  std::string where() const {
    return at_.hosts.empty() ? "a Unix socket" : at_.hosts[0] + ":" + std::to_string(at_.port);
  }
  static double environment_seconds(const char* name, double otherwise) {
    const double s = std::strtod(detail::environment(name).c_str(), nullptr);
    return s > 0 ? s : otherwise;
  }

  void work() {
    auto next = clock::now();
    for (;;) {
      const auto now = clock::now();
      const bool due = now >= next;
      if (due) next = now + rank_ledger::interval();
      ledger_.tick(due);
      for (auto& m : ledger_.take_outbox()) queue(m);
      const bool more = queue_pieces();
      for (auto& p : peers_)
        if (p) flush(*p);
      if (stop_.load() && (nothing_to_send() || clock::now() > deadline_)) return;
      wait_for_news(more ? now : next);
    }
  }
  bool nothing_to_send() const {
    for (std::size_t r = 0; r < peers_.size(); ++r)
      if (const auto& p = peers_[r]; p && (p->to_send.size() > p->sent || ledger_.has_pieces(static_cast<int>(r))))
        return false;
    return ledger_.outbox_is_empty();
  }
  /// Queues a piece of a bundle for each rank that has read the earlier ones; other messages go between. Whether there was one.
  bool queue_pieces() {
    bool any = false;
    for (std::size_t r = 0; r < peers_.size(); ++r) {
      connection* const p = peers_[r].get();
      if (!p || p->to_send.size() - p->sent > max_ahead) continue;
      const std::string body = ledger_.next_piece(static_cast<int>(r));
      if (body.empty()) continue;
      p->to_send.erase(0, std::exchange(p->sent, 0));
      p->to_send += frame_of(*p->signer, body);
      any = true;
    }
    return any;
  }

  void queue(const rank_ledger::outgoing& m) {
    for (std::size_t r = 0; r < peers_.size(); ++r) {
      connection* const p = peers_[r].get();
      // A rank sends all to rank 0, which passes it on, to a rank that is still to come as well.
      if (!p && listener_ && m.to == static_cast<int>(r)) early_.push_back(m);
      if (!p || !(ledger_.rank() != 0 || m.to < 0 || m.to == static_cast<int>(r))) continue;
      p->to_send += frame_of(*p->signer, m.body);
      if (p->to_send.size() - p->sent > max_waiting) lose(r, "does not read what it is sent");
    }
  }
  void flush(connection& c) {
    while (c.sent < c.to_send.size()) {
      const auto n = ::send(c.fd.get(), c.to_send.data() + c.sent, c.to_send.size() - c.sent, MSG_NOSIGNAL);
      if (n < 0 && errno == EINTR) continue;
      if (n <= 0) return;  // full, or closed, which reading tells
      c.sent += static_cast<std::size_t>(n);
    }
    c.to_send.clear();
    c.sent = 0;
  }

  void wait_for_news(clock::time_point until) {
    std::vector<pollfd> all{{woken_.get(), POLLIN, 0}};
    const bool waits = listener_ && !all_joined();
    if (!waits && listener_) {
      listener_ = detail::file_handle();
      strangers_.clear();
    }
    const bool listens = waits && clock::now() >= listens_from_;
    if (listens) all.push_back({listener_.get(), POLLIN, 0});
    const std::size_t strangers = all.size();
    for (const auto& c : strangers_) all.push_back({c->fd.get(), POLLIN, 0});
    const std::size_t first = all.size();
    std::vector<std::size_t> of;
    for (std::size_t r = 0; r < peers_.size(); ++r) {
      if (!peers_[r]) continue;
      const connection& c = *peers_[r];
      all.push_back({c.fd.get(), static_cast<short>(c.to_send.size() > c.sent ? POLLIN | POLLOUT : POLLIN), 0});
      of.push_back(r);
    }
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(until - clock::now()).count();
    ::poll(all.data(), all.size(), static_cast<int>(std::clamp<long>(left, 0, 1000)));
    char drained[256];
    static_cast<void>(!::read(woken_.get(), drained, sizeof drained));
    for (std::size_t k = 0; k < of.size(); ++k)
      if (all[first + k].revents & (POLLIN | POLLHUP | POLLERR)) read_peer(of[k]);
    const std::size_t count = strangers_.size();
    for (std::size_t k = count; k-- > 0;)
      if (all[strangers + k].revents != 0 || clock::now() - strangers_[k]->since > patience) read_stranger(k);
    if (listens && all[1].revents != 0) accept();
  }
  bool all_joined() const {
    for (std::size_t r = 1; r < peers_.size(); ++r)
      if (!peers_[r]) return false;
    return true;
  }

  void lose(std::size_t r, const std::string& why) {
    peers_[r].reset();
    ledger_.lose(static_cast<int>(r), why);
  }
  void read_peer(std::size_t r) {
    connection& c = *peers_[r];
    std::vector<char> piece(std::size_t{64} << 10);
    for (;;) {
      const auto n = ::recv(c.fd.get(), piece.data(), piece.size(), 0);
      if (n < 0 && errno == EINTR) continue;
      if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return;
      if (n <= 0) return lose(r, "has died: its process has ended without a word");
      c.in->add({piece.data(), static_cast<std::size_t>(n)});
      for (std::string body; c.in->next(body);)
        if (!ledger_.take(static_cast<int>(r), body)) return lose(r, "sent a message that makes no sense");
      if (c.in->is_bad()) return lose(r, "sent a message with a wrong signature");
    }
  }

  void accept() {
    detail::file_handle fd(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    // Without descriptors the connection stays where it is, and would wake this thread again at once.
    if (!fd && (errno == EMFILE || errno == ENFILE)) listens_from_ = clock::now() + std::chrono::milliseconds(100);
    if (!fd || (at_.hosts.empty() && !detail::is_of_this_user(fd.get()))) return;
    // The oldest goes, so that strangers keep no rank out.
    if (strangers_.size() == max_strangers) strangers_.erase(strangers_.begin());
    auto c = std::make_unique<connection>();
    c->fd = std::move(fd);
    c->nonce = detail::random_bytes();
    strangers_.push_back(std::move(c));
  }
  /// Goes on with a stranger's proof, or leaves it.
  void read_stranger(std::size_t k) {
    connection& c = *strangers_[k];
    const std::size_t wanted = c.greeted.empty() ? hello::bytes : proof_bytes;
    char piece[hello::bytes];
    const auto n = ::recv(c.fd.get(), piece, wanted - c.begun.size(), 0);
    const auto leave = [&] { strangers_.erase(strangers_.begin() + static_cast<std::ptrdiff_t>(k)); };
    if (n < 0 && (errno == EAGAIN || errno == EINTR) && clock::now() - c.since <= patience) return;
    if (n <= 0) return leave();
    c.begun.append(piece, static_cast<std::size_t>(n));
    if (c.begun.size() < wanted) return;
    int rank = 0, size = 0;
    if (!hello::read(c.greeted.empty() ? c.begun : c.greeted, rank, size)) return leave();
    if (c.greeted.empty()) {
      c.greeted = std::exchange(c.begun, {});
      // It fits the socket's buffer, or the other side is no rank.
      if (!detail::send_all(c.fd.get(), c.nonce + proof(secret_, of_root, c.greeted, c.nonce))) leave();
      return;
    }
    if (!equal_in_constant_time(c.begun, proof(secret_, of_rank, c.greeted, c.nonce))) {
      logs::warn_once(
          "a connection to rank 0 does not know the secret; set SINTER_MESH_SECRET to the same text on all "
          "ranks");
      return leave();
    }
    admit(k, rank, size);
  }
  void admit(std::size_t k, int rank, int size) {
    auto c = std::move(strangers_[k]);
    strangers_.erase(strangers_.begin() + static_cast<std::ptrdiff_t>(k));
    if (size != ledger_.size())
      return ledger_.fail("rank " + std::to_string(rank) + " was started as one of " + std::to_string(size) +
                          " ranks, rank 0 as one of " + std::to_string(ledger_.size()));
    if (rank == 0 || peers_[static_cast<std::size_t>(rank)])
      return ledger_.fail("two processes are rank " + std::to_string(rank));
    c->prove(secret_, rank, true);
    peers_[static_cast<std::size_t>(rank)] = std::move(c);
    ledger_.join(rank);
    for (const auto& m : std::exchange(early_, {})) queue(m);
    if (ledger_.has_failed()) queue({rank, static_cast<char>(message::failure) + ledger_.failure()});
  }

  rank_ledger& ledger_;
  meeting_point at_;
  std::string secret_;
  detail::file_handle listener_, woken_, wake_;
  std::vector<std::unique_ptr<connection>> strangers_, peers_;  ///< peers by rank
  clock::time_point listens_from_{};
  std::vector<rank_ledger::outgoing> early_;  ///< for ranks that have not joined
  clock::time_point deadline_;                ///< of sending, once stop_ is set
  std::atomic<bool> stop_{false};
  std::thread thread_;
};

}  // namespace sinter::engine::run
