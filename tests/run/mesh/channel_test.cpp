// The control channel between ranks of one process: meeting, strangers, agreement, failures.
#include <doctest/doctest.h>
#include <sinter/run/mesh/channel.hpp>

#include <atomic>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "../../environment_value.hpp"
#include "channel_ranks.hpp"

using namespace sinter;
using namespace sinter::engine::run;
using channels::ranks, channels::secret;
namespace sockets = sinter::engine::run::detail;

namespace {

std::shared_ptr<const program_guards> guards(const std::string& what) {
  return std::make_shared<program_guards>(program_guards{sha256_of(what), "f(" + what + ") at a.cpp:7"});
}
const std::vector<int> three{0, 1, 2};

}  // namespace

TEST_CASE("ranks exchange texts, over TCP and over a Unix socket") {
  for (const bool by_unix : {false, true}) {
    ranks r(3, by_unix);
    std::atomic<int> right = 0;
    const auto problems = r.all([&](int rank, rank_ledger& l) {
      for (int turn = 0; turn < 20; ++turn) {
        const auto got =
            l.exchange_texts("turn " + std::to_string(turn), three, std::to_string(rank * 10 + turn), "test", {});
        right +=
            got == std::vector<std::string>{std::to_string(turn), std::to_string(10 + turn), std::to_string(20 + turn)};
      }
      // Some of them, meanwhile.
      if (rank != 1)
        right += l.exchange_texts("pair", {0, 2}, std::string(300000, 'x'), "test", {})[0].size() == 300000;
      if (!l.leave()) throw system_error("no end");
    });
    for (const auto& p : problems) CHECK(p == "");
    CHECK(right == 62);
  }
}

TEST_CASE("what is for a rank that comes late waits for it") {
  meeting_point at{{"127.0.0.1"}, 0};
  sockets::file_handle listener = sockets::listen_at(at);
  rank_ledger first(0, 3), second(1, 3), late(2, 3);
  control_channel root(first, at, secret, std::move(listener));
  control_channel early(second, at, secret, sockets::file_handle());
  std::vector<std::string> got;
  std::thread waits([&] { got = second.exchange_texts("k", {1, 2}, "early", "test", {}); });
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
  control_channel last(late, at, secret, sockets::file_handle());
  CHECK(late.exchange_texts("k", {1, 2}, "late", "test", {}) == std::vector<std::string>{"early", "late"});
  waits.join();
  CHECK(got == std::vector<std::string>{"early", "late"});
}

TEST_CASE("strangers are left, and keep no rank out") {
  meeting_point at{{"127.0.0.1"}, 0};
  sockets::file_handle listener = sockets::listen_at(at);
  rank_ledger root(0, 2), other(1, 2);
  control_channel first(root, at, secret, std::move(listener));
  std::vector<sockets::file_handle> crowd;
  for (int k = 0; k < 100; ++k) crowd.push_back(sockets::connect_to(at));
  CHECK(sockets::send_all(crowd.back().get(), std::string(hello::bytes, 'x')));
  std::string reply;
  CHECK(!sockets::receive_all(crowd.back().get(), reply, 1));  // it hangs up
  CHECK_THROWS_WITH_AS(control_channel(other, at, std::string(32, 't'), sockets::file_handle()),
                       doctest::Contains("does not know the secret"), system_error);
  // One that says the right hello and does not know the secret.
  sockets::file_handle liar = sockets::connect_to(at);
  CHECK(sockets::send_all(liar.get(), hello::text(1, 2, std::string(32, 'n'))));
  CHECK(sockets::receive_all(liar.get(), reply, challenge_bytes));
  CHECK(sockets::send_all(liar.get(), reply.substr(hello::nonce_bytes)));  // root's own proof, turned back
  CHECK(!sockets::receive_all(liar.get(), reply, 1));
  CHECK(!root.is_here(1));
  control_channel second(other, at, secret, sockets::file_handle());
  root.wait_for_all({});
  CHECK(root.is_here(1));
  std::thread ends([&] { other.leave(); });
  CHECK(root.leave());
  ends.join();
}

TEST_CASE("a rank that missed goes on once the others have the same program") {
  ranks r(3);
  std::atomic<bool> ran = false;
  const auto problems = r.all([&](int rank, rank_ledger& l) {
    l.agree(guards("a"), {});  // all miss
    l.call(guards("a"));
    if (rank == 0) {
      // It hits, a while later, and waits in the collective.
      std::this_thread::sleep_for(std::chrono::milliseconds(300));
      ran = true;
      l.call(guards("b"));
    } else {
      l.agree(guards("b"), {});
      if (!ran) throw system_error("too early");
      l.call(guards("b"));
      l.agree(guards("c"), {});
      l.agree(guards("d"), {});  // a program that is compiled, and another one before the first runs
    }
    if (rank == 0) {
      l.agree(guards("c"), {});
      l.agree(guards("d"), {});
    }
    l.leave();
  });
  for (const auto& p : problems) CHECK(p == "");
}

TEST_CASE("ranks that differ in collectives still meet at the same call") {
  ranks r(3);
  const auto problems = r.all([&](int rank, rank_ledger& l) {
    l.agree(guards("a"), {});
    l.call(guards("a"));
    for (int k = 0; k <= 3 * rank; ++k) l.begin({});  // a loop that ends later on some ranks
    l.agree(guards("b"), {});
    l.call(guards("b"));
    l.leave();
  });
  for (const auto& p : problems) CHECK(p == "");
}

TEST_CASE("a rank that is far ahead still answers for an early call") {
  // Nothing makes rank 0 wait, as where it only sends: it is thousands of calls ahead, of two programs in turn.
  const environment_value silence("SINTER_MESH_SILENCE", "1");  // a heartbeat in 100 ms
  ranks r(3);
  constexpr int calls = 20000;
  std::atomic<bool> ahead = false;
  const auto a = guards("a"), b = guards("b"), odd = guards("odd");
  const auto problems = r.all([&](int rank, rank_ledger& l) {
    if (rank == 0) {
      for (int k = 0; k < calls; ++k) l.call(k % 2 ? a : b);
      std::this_thread::sleep_for(std::chrono::milliseconds(300));  // heartbeats come in
      ahead = true;
    } else {
      while (!ahead) std::this_thread::sleep_for(std::chrono::milliseconds(10));
      for (int k = 0; k < calls; ++k) {
        // One rank misses where the other hits.
        const auto mine = rank == 2 && k == calls - 1 ? odd : k % 2 ? a : b;
        if (k % 5000 == 0 || k == calls - 1) l.agree(mine, {"b.cpp", 9});
        l.call(mine);
      }
    }
    l.exchange_texts("after", three, "", "all_reduce", {"b.cpp", 4});
  });
  for (const auto& p : problems) {
    CAPTURE(p);
    CHECK(p.find("rank 2 runs f(odd) at a.cpp:7") != p.npos);
  }
}

TEST_CASE("different programs throw on all ranks, with both guards") {
  for (const bool hits : {false, true}) {
    ranks r(3);
    const auto problems = r.all([&](int rank, rank_ledger& l) {
      if (rank == 0 && hits) l.call(guards("one"));
      else l.agree(guards(rank == 0 ? "one" : "other"), {"b.cpp", 3});
      l.exchange_texts("after", three, "", "all_reduce", {"b.cpp", 4});
    });
    for (const auto& p : problems) {
      CAPTURE(p);
      CHECK(p.find("rank 0 runs f(one) at a.cpp:7; rank ") != p.npos);
      CHECK(p.find(" runs f(other) at a.cpp:7") != p.npos);
    }
  }
}

TEST_CASE("a rank that dies, ends or does not come is an error on the others") {
  const environment_value timeout("SINTER_MESH_TIMEOUT", "1"), silence("SINTER_MESH_SILENCE", "0.6");
  for (const std::string how : {"dies", "ends", "does not come"}) {
    for (const int victim : {0, 2}) {
      ranks r(3);
      const auto start = std::chrono::steady_clock::now();
      const auto problems = r.all([&](int rank, rank_ledger& l) {
        if (rank != victim) return void(l.exchange_texts("k", three, "", "all_reduce", {"b.cpp", 4}));
        if (how == "dies") r.connections[static_cast<std::size_t>(victim)].reset();
        if (how == "ends") l.leave();
      });
      const double took = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
      CHECK(took < 5);
      for (int rank = 0; rank < 3; ++rank) {
        const std::string& p = problems[static_cast<std::size_t>(rank)];
        CAPTURE(how);
        CAPTURE(p);
        if (rank == victim) CHECK(p == "");
        else
          CHECK(p.find("rank " + std::to_string(victim) +
                       (how == "dies"   ? " has died"
                        : how == "ends" ? " has ended"
                                        : " (in host code")) != p.npos);
        if (rank != victim) CHECK(p.find("b.cpp:4") != p.npos);
      }
    }
  }
}
