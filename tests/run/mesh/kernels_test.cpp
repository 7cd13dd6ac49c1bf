// Kernels that one rank makes for all: who makes them, and how their bundles come to the others.
#include <doctest/doctest.h>

#include <array>
#include <atomic>
#include <chrono>
#include <random>

#include "../../environment_value.hpp"
#include "channel_ranks.hpp"

using namespace sinter::engine::run;
using channels::ranks;

namespace {

std::string name(const std::string& kernel) { return std::string(bytes_of(sha256_of(kernel))); }
kernel_names names(const std::vector<std::string>& kernels) {
  kernel_names out;
  for (const auto& k : kernels) out.push_back(name(k));
  return out;
}
/// Not compressible, and each piece differs.
std::string bytes(std::size_t n) {
  std::mt19937 random(static_cast<unsigned>(n));
  std::string out(n, '\0');
  for (char& c : out) c = static_cast<char>(random());
  return out;
}
/// What a rank gets of other ranks; of the kernels that it makes it gives `made` in one bundle.
std::vector<std::string> share(rank_ledger& l, const kernel_names& wanted, const std::string& made, int* makes) {
  const std::uint64_t number = l.order(wanted);
  kernel_names mine;
  for (std::size_t k = 0; k < wanted.size(); ++k)
    if (l.is_mine(number, k)) mine.push_back(wanted[k]);
  *makes = static_cast<int>(mine.size());
  if (!mine.empty()) l.give(mine, made);
  std::vector<std::string> out;
  for (const auto& b : l.await(number, true)) out.push_back(b->bytes);
  l.end_order(number);
  return out;
}
const std::vector<int> all_of_4{0, 1, 2, 3};

}  // namespace

TEST_CASE("one rank makes a kernel, and the others receive its bundle") {
  for (const bool by_unix : {false, true})
    for (const std::size_t size : {std::size_t{1}, outgoing_bundles::piece_bytes, std::size_t{3000001}}) {
      ranks r(4, by_unix);
      std::array<int, 4> makes{};
      std::array<std::vector<std::string>, 4> got;
      const std::string made = bytes(size);
      const auto problems = r.all([&](int rank, rank_ledger& l) {
        const auto k = static_cast<std::size_t>(rank);
        got[k] = share(l, names({"a", "b"}), made, &makes[k]);
        l.exchange_texts("end", all_of_4, "", "test", {});
      });
      for (const auto& p : problems) CHECK(p == "");
      int makers = 0;
      for (std::size_t k = 0; k < 4; ++k) {
        makers += makes[k] == 2;
        CHECK((makes[k] == 2 ? got[k].empty() : makes[k] == 0 && got[k] == std::vector<std::string>{made}));
      }
      CHECK(makers == 1);
    }
}

TEST_CASE("ranks that lack different kernels make what no other rank makes, and wait for the rest") {
  ranks r(3);
  std::array<int, 3> makes{};
  std::array<std::vector<std::string>, 3> got;
  const std::vector<std::vector<std::string>> lack{{"a", "b"}, {"b", "c"}, {"c", "a", "d"}};
  const auto problems = r.all([&](int rank, rank_ledger& l) {
    const auto k = static_cast<std::size_t>(rank);
    got[k] = share(l, names(lack[k]), std::to_string(rank), &makes[k]);
    l.exchange_texts("end", {0, 1, 2}, "", "test", {});
  });
  for (const auto& p : problems) CHECK(p == "");
  CHECK(makes[0] + makes[1] + makes[2] == 4);
  CHECK(makes[2] >= 1);  // "d"
  for (std::size_t k = 0; k < 3; ++k) CHECK(got[k].size() <= lack[k].size() - static_cast<std::size_t>(makes[k]));
}

TEST_CASE("a rank that comes late receives what was made, and it is then forgotten") {
  ranks r(3);
  int makes = 0;
  CHECK(share(*r.ledgers[1], names({"a"}), "code", &makes).empty());
  CHECK(makes == 1);
  CHECK(share(*r.ledgers[0], names({"a"}), "other", &makes) == std::vector<std::string>{"code"});
  CHECK(makes == 0);
  CHECK(share(*r.ledgers[2], names({"a"}), "other", &makes) == std::vector<std::string>{"code"});
  CHECK(makes == 0);
  // All have it. A rank that lacks it again makes it.
  CHECK(share(*r.ledgers[2], names({"a"}), "again", &makes).empty());
  CHECK(makes == 1);
}

TEST_CASE("a rank learns that a kernel does not come") {
  for (const std::string how : {"it fails", "it ends"})
    for (const int maker : {0, 1}) {
      ranks r(3);
      std::array<std::vector<std::string>, 3> got;
      std::atomic<int> asked = 0;
      std::array<bool, 3> mine{};
      const auto problems = r.all([&](int rank, rank_ledger& l) {
        const auto k = static_cast<std::size_t>(rank);
        while (rank != maker && asked == 0) std::this_thread::sleep_for(std::chrono::milliseconds(1));
        const std::uint64_t number = l.order(names({"a"}));
        mine[k] = l.is_mine(number, 0);
        ++asked;
        if (rank != maker) {
          for (const auto& b : l.await(number, true)) got[k].push_back(b->bytes);
        } else {
          while (asked < 3) std::this_thread::sleep_for(std::chrono::milliseconds(1));
          if (how == "it fails") l.withdraw(names({"a"}));
          else if (!l.leave()) throw sinter::system_error("no end");
        }
        l.end_order(number);
        if (how == "it ends" && rank != maker && !l.leave()) throw sinter::system_error("no end");
      });
      for (const auto& p : problems) CHECK(p == "");
      for (std::size_t k = 0; k < 3; ++k) {
        CHECK(mine[k] == (static_cast<int>(k) == maker));
        CHECK(got[k].empty());
      }
    }
}

TEST_CASE("a bundle comes from a rank that ends right after it") {
  const std::string large = bytes(std::size_t{6} << 20);
  for (const int maker : {0, 1}) {
    ranks r(3);
    std::atomic<bool> asked = false;
    const auto problems = r.all([&](int rank, rank_ledger& l) {
      int makes = 0;
      std::vector<std::string> got;
      while (rank != maker && !asked) std::this_thread::sleep_for(std::chrono::milliseconds(1));
      if (rank == maker) {
        const std::uint64_t number = l.order(names({"a"}));
        asked = true;
        if (!l.is_mine(number, 0)) throw sinter::system_error("another maker");
        l.give(names({"a"}), large);
        l.end_order(number);
      } else {
        got = share(l, names({"a"}), "again", &makes);
      }
      if (!l.leave()) throw sinter::system_error("no end");
      if (rank != maker && got != std::vector<std::string>{large}) throw sinter::system_error("another bundle");
    });
    for (const auto& p : problems) CHECK(p == "");
  }
}

TEST_CASE("nobody waits for a rank that dies, is too late, or for one that waits itself") {
  const environment_value silence("SINTER_MESH_SILENCE", "0.6");
  for (const std::string how : {"dies", "is late"})
    for (const int maker : {0, 2}) {
      const environment_value timeout("SINTER_MESH_TIMEOUT", how == "is late" ? "1" : "30");
      ranks r(3);
      std::atomic<int> asked = 0, ended = 0;
      const auto start = std::chrono::steady_clock::now();
      r.all([&](int rank, rank_ledger& l) {
        while (rank != maker && asked == 0) std::this_thread::sleep_for(std::chrono::milliseconds(1));
        const std::uint64_t number = l.order(names({"a"}));
        ++asked;
        if (rank != maker) {
          CHECK(l.await(number, true).empty());
          ++ended;
          return;
        }
        while (asked < 3) std::this_thread::sleep_for(std::chrono::milliseconds(1));
        if (how == "dies") r.connections[static_cast<std::size_t>(maker)].reset();
        else
          while (ended < 2) std::this_thread::sleep_for(std::chrono::milliseconds(1));
      });
      CHECK(std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count() < 10);
      for (int rank = 0; rank < 3; ++rank)
        if (rank != maker) CHECK(r.ledgers[static_cast<std::size_t>(rank)]->has_failed() == (how == "dies"));
      // After a failure a rank makes all itself.
      if (how == "dies") {
        rank_ledger& left = *r.ledgers[1];
        CHECK(left.is_mine(left.order(names({"b"})), 0));
      }
    }
}

TEST_CASE("ranks answer while a large bundle is on its way, and it arrives whole") {
  const environment_value silence("SINTER_MESH_SILENCE", "1");  // a heartbeat in 100 ms
  ranks r(3);
  const std::string large = bytes(std::size_t{6} << 20);
  std::atomic<int> turns = 0;
  const auto problems = r.all([&](int rank, rank_ledger& l) {
    int makes = 0;
    std::thread other;
    // Texts go between the pieces.
    other = std::thread([&] {
      for (int turn = 0; turn < 20; ++turn) {
        l.exchange_texts("turn " + std::to_string(turn), {0, 1, 2}, "x", "test", {});
        ++turns;
      }
    });
    const auto got = share(l, names({"a"}), large, &makes);
    other.join();
    if (makes == 0 && got != std::vector<std::string>{large}) throw sinter::system_error("another bundle");
    if (rank == 0) l.exchange_texts("end", {0, 1, 2}, "", "test", {});
    else l.exchange_texts("end", {0, 1, 2}, "", "test", {});
  });
  for (const auto& p : problems) CHECK(p == "");
  CHECK(turns == 60);
}

TEST_CASE("messages about kernels that no rank sends are refused") {
  const auto want = [](std::uint64_t count, const std::string& rest) {
    std::string m = "w";
    put_number(m, 7, 8);
    put_number(m, count, 4);
    return m + rest;
  };
  const auto bundle = [](std::uint64_t size) {
    std::string m = "k";
    put_names(m, names({"a"}));
    put_number(m, size, 8);
    return m;
  };
  const std::string one = name("a");
  {
    rank_ledger root(0, 3);
    CHECK(root.take(1, want(1, one)));
    const auto out = root.take_outbox();
    REQUIRE(out.size() == 1);
    CHECK(out[0].to == 1);
    CHECK(out[0].body[0] == 'm');
    for (const auto& bad : {want(0, ""), want(2, one), want(1, one + "x"), want(0xffffffff, one), std::string("w")})
      CHECK(!root.take(1, bad));
    std::string none = "n";
    put_names(none, names({"b"}));
    CHECK(root.take(1, none));  // of a kernel that nobody asked for
    CHECK(!root.take(1, "n"));
    CHECK(!root.take(1, "m" + want(0, "").substr(1)));  // rank 0 alone answers
    // Sizes are bounded, and no more bytes come than were announced.
    CHECK(!root.take(1, bundle(0)));
    CHECK(!root.take(1, bundle(kernel_order::max_bytes + 1)));
    CHECK(!root.take(1, bundle(~std::uint64_t{0})));
    CHECK(!root.take(1, "dx"));  // of no bundle
    CHECK(root.take(1, bundle(3)));
    CHECK(!root.take(1, bundle(3)));  // within another one
    CHECK(!root.take(1, "d"));
    CHECK(root.take(1, "dxy"));
    CHECK(!root.take(1, "dzz"));
    CHECK(root.take(1, "dz"));
    CHECK(!root.take(1, "dz"));
  }
  {
    // Another rank's kernel is none of rank 2's business.
    rank_ledger root(0, 3);
    CHECK(root.take(1, want(1, one)));
    CHECK(root.take(2, want(1, one)));
    CHECK(root.take(2, bundle(1)));
    CHECK(root.take(2, "dx"));
    std::string none = "n";
    put_names(none, names({"a"}));
    CHECK(root.take(2, none));
    CHECK(!root.has_pieces(2));
    CHECK(root.take(1, bundle(1)));
    CHECK(root.take(1, "dy"));
    CHECK(root.has_pieces(2));
    CHECK(root.next_piece(2) == bundle(1));
    CHECK(root.next_piece(2) == "dy");
    CHECK(!root.has_pieces(2));
    CHECK(!root.has_pieces(1));
  }
  {
    // Only rank 0 speaks to the others.
    rank_ledger other(1, 3);
    CHECK(!other.take(2, bundle(3)));
    CHECK(!other.take(0, want(1, one)));
    const auto makers = [](std::uint64_t number, std::uint64_t count, std::uint64_t who) {
      std::string m = "m";
      put_number(m, number, 8);
      put_number(m, count, 4);
      put_number(m, who, 4);
      return m;
    };
    CHECK(!other.take(0, makers(0, 1, 0)));  // it has asked for nothing
    CHECK(!other.take(0, makers(0, 2, 0)));
    CHECK(other.take(0, bundle(2)));  // from an order that has ended
    CHECK(other.take(0, "dxy"));
  }
}

TEST_CASE("what rank 0 keeps is bounded") {
  kernel_table table(3);
  const std::string large(kernel_order::max_bytes, 'x');
  for (int turn = 0; turn < 5; ++turn) {
    const kernel_names one = names({std::to_string(turn)});
    CHECK(table.ask(1, one).makers == std::vector<int>{-1});
    CHECK(table.ask(2, one).makers == std::vector<int>{1});
    CHECK(table.deliver(1, std::make_shared<const named_bundle>(named_bundle{one, large})) == std::set<int>{2});
    CHECK(table.kept_bytes() <= 2 * kernel_order::max_bytes);
  }
  CHECK(table.size() == 2);
  // The latest one is still there for the third rank, and then no more.
  CHECK(table.ask(0, names({"4"})).ready.size() == 1);
  CHECK(table.size() == 1);
  CHECK(table.ask(0, names({"0"})).makers == std::vector<int>{-1});
}

TEST_CASE("whatever ranks do, each order comes to an end, and a kernel has one maker at a time") {
  struct asked {
    int rank;
    ordered_kernels all;
  };
  for (unsigned seed = 0; seed < 300; ++seed) {
    std::mt19937 random(seed);
    const int size = 2 + static_cast<int>(random() % 4);
    kernel_table table(size);
    std::vector<asked> orders;
    std::map<std::string, int> maker;  // of kernels that are being made
    const auto resolve = [&](int rank, const kernel_names& which, const shared_bundle& with) {
      for (auto& o : orders)
        if (o.rank == rank) o.all.resolve(which, with);
    };
    const auto finish = [&](const std::string n, bool comes) {
      const int rank = maker.at(n);
      maker.erase(n);
      const auto b = std::make_shared<const named_bundle>(named_bundle{{n}, "code of " + n});
      if (comes)
        for (const int to : table.deliver(rank, b)) resolve(to, {n}, b);
      else
        for (const auto& [to, which] : table.withdraw(rank, {n})) resolve(to, which, nullptr);
    };
    for (int turn = 0; turn < 60; ++turn) {
      if (random() % 3 == 0 && !maker.empty()) {
        const auto at = std::next(maker.begin(), static_cast<long>(random() % maker.size()));
        finish(at->first, random() % 3 > 0);
        continue;
      }
      asked one{static_cast<int>(random() % static_cast<unsigned>(size)), {}};
      for (unsigned k = 0; k < 6; ++k)
        if (random() % 2) one.all.names.push_back(name(std::to_string(k)));
      if (one.all.names.empty()) continue;
      one.all.open.insert(one.all.names.begin(), one.all.names.end());
      const auto answer = table.ask(one.rank, one.all.names);
      one.all.makers = answer.makers;
      for (std::size_t k = 0; k < one.all.names.size(); ++k) {
        if (answer.makers[k] >= 0) continue;
        // A thread of the same rank may make it already.
        const auto [at, fresh] = maker.emplace(one.all.names[k], one.rank);
        CHECK(at->second == one.rank);
      }
      orders.push_back(std::move(one));
      for (const auto& b : answer.ready) resolve(orders.back().rank, b->names, b);
    }
    while (!maker.empty()) finish(maker.begin()->first, random() % 2 == 0);
    for (const auto& o : orders) {
      CHECK(o.all.is_complete());
      CHECK(o.all.awaited() == -1);
      for (const auto& b : o.all.bundles) CHECK(b->bytes == "code of " + b->names[0]);
    }
  }
}

TEST_CASE("sequences of messages about kernels break nothing, and what a rank holds is bounded") {
  std::mt19937 random(5);
  for (const int rank : {0, 1}) {
    rank_ledger ledger(rank, 3);
    int refused = 0, taken = 0;
    for (int turn = 0; turn < 30000; ++turn) {
      const char kind = "wmkdn"[random() % 5];
      std::string m(1, kind);
      if (kind == 'w' || kind == 'm') put_number(m, random() % 3, 8);
      if (kind == 'm') {
        put_number(m, 1, 4);
        put_number(m, random() % 4, 4);
      } else if (kind != 'd') {
        put_names(m, names({std::to_string(random() % 5)}));
      }
      if (kind == 'k') put_number(m, random() % 20 ? random() % 64 : random(), 8);
      if (kind == 'd') m += std::string(random() % 32, 'x');
      if (random() % 20 == 0) m.resize(random() % m.size());  // cut
      if (random() % 20 == 0) m += 'x';
      ++(ledger.take(rank == 0 ? 1 + static_cast<int>(random() % 2) : 0, m) ? taken : refused);
      CHECK(ledger.take_outbox().size() <= 3);
      for (const int to : {0, 1, 2})
        while (ledger.has_pieces(to)) CHECK(ledger.next_piece(to).size() < 200);
    }
    CHECK(refused > 1000);
    CHECK(taken > 1000);
  }
}
