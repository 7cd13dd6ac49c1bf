// Ranks of one process with their control channels.
#pragma once

#include <unistd.h>

#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <sinter/run/mesh/channel.hpp>

namespace channels {

using namespace sinter::engine::run;
namespace sockets = sinter::engine::run::detail;

inline const std::string secret(32, 's');

struct ranks {
  explicit ranks(int size, bool by_unix = false, const std::string& last_secret = secret) {
    meeting_point at;
    if (by_unix) at.port = 20000 + static_cast<int>(::getpid() % 20000);
    else at.hosts = {"127.0.0.1"};
    sockets::file_handle listener = sockets::listen_at(at);
    point = at;
    for (int r = 0; r < size; ++r) {
      ledgers.push_back(std::make_unique<rank_ledger>(r, size));
      connections.push_back(std::make_unique<control_channel>(*ledgers.back(), at, r == size - 1 ? last_secret : secret,
                                                              r == 0 ? std::move(listener) : sockets::file_handle()));
    }
    ledgers[0]->wait_for_all({});
  }
  /// f(rank) on a thread each; returns what they throw.
  template <class F>
  std::vector<std::string> all(const F& f) {
    std::vector<std::string> out(ledgers.size());
    std::vector<std::thread> threads;
    for (std::size_t r = 0; r < ledgers.size(); ++r)
      threads.emplace_back([&, r] {
        try {
          f(static_cast<int>(r), *ledgers[r]);
        } catch (const std::exception& e) {
          out[r] = e.what();
        }
      });
    for (auto& t : threads) t.join();
    return out;
  }
  meeting_point point;
  std::vector<std::unique_ptr<rank_ledger>> ledgers;
  std::vector<std::unique_ptr<control_channel>> connections;
};

}  // namespace channels
