// What ranks prove and sign, and what they make of bytes that no rank sends.
#include <doctest/doctest.h>
#include <sinter/run/mesh/ledger.hpp>
#include <sinter/run/mesh/wire.hpp>

#include <random>
#include <string>
#include <vector>

#include "../../environment_value.hpp"

using namespace sinter::engine::run;

namespace {

std::string hex(const sha256_digest& d) {
  std::string out;
  for (const unsigned char c : d) {
    out += "0123456789abcdef"[c >> 4];
    out += "0123456789abcdef"[c & 15];
  }
  return out;
}

}  // namespace

TEST_CASE("SHA-256 of the examples of FIPS 180-4") {
  CHECK(hex(sha256_of("")) == "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  CHECK(hex(sha256_of("abc")) == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  CHECK(hex(sha256_of("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq")) ==
        "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
  sha256 million;
  for (int k = 0; k < 1000; ++k) million.add(std::string(1000, 'a'));
  CHECK(hex(million.end()) == "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
  // In pieces, around the ends of blocks.
  for (std::size_t n = 50; n < 140; ++n) {
    const std::string text(n, 'x');
    sha256 pieces;
    for (std::size_t k = 0; k < n; k += 7) pieces.add(std::string_view(text).substr(k, 7));
    CHECK(pieces.end() == sha256_of(text));
  }
}

TEST_CASE("HMAC-SHA256 of the examples of RFC 4231") {
  const std::string fifty(50, '\xdd'), long_key(131, '\xaa');
  CHECK(hex(hmac_sha256(std::string(20, '\x0b'), "Hi There")) ==
        "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7");
  CHECK(hex(hmac_sha256("Jefe", "what do ya want for nothing?")) ==
        "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
  CHECK(hex(hmac_sha256(std::string(20, '\xaa'), fifty)) ==
        "773ea91e36800e46854db8ebd09181a72959098b3ef8c122d9635514ced565fe");
  CHECK(hex(hmac_sha256(long_key, "Test Using Larger Than Block-Size Key - Hash Key First")) ==
        "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54");
  CHECK(hex(hmac_sha256(long_key,
                        "This is a test using a larger than block-size key and a larger than block-size data. The key "
                        "needs to be hashed before being used by the HMAC algorithm.")) ==
        "9b09ffa71b942fcb27635fbcd5b0e944bfdc63644f0713938a7f51535c3a35e2");
}

TEST_CASE("frames arrive in pieces, and changed ones do not") {
  const std::string key(32, 'k');
  frame_signer to_root(key, true);
  std::string stream;
  for (const char* body : {"a", "second", "third"}) stream += frame_of(to_root, body);
  for (const std::size_t piece : {1, 5, 1000}) {
    frame_reader in(frame_signer(key, true));
    std::string all, body;
    for (std::size_t k = 0; k < stream.size(); k += piece) {
      in.add(std::string_view(stream).substr(k, piece));
      while (in.next(body)) all += body + " ";
    }
    CHECK(all == "a second third ");
    CHECK(!in.is_bad());
  }
  // Each bit counts, in the length, the body and the signature.
  for (std::size_t k = 0; k < 4 + 1 + proof_bytes; ++k) {
    frame_reader in(frame_signer(key, true));
    std::string changed = stream, body;
    changed[k] = static_cast<char>(changed[k] ^ 1);
    in.add(changed);
    CHECK(!in.next(body));
    CHECK((in.is_bad() || k < 4));
  }
  const std::size_t first = 4 + 1 + proof_bytes;
  const auto is_refused = [&](frame_signer signer, const std::string& bytes) {
    frame_reader in(std::move(signer));
    std::string body;
    in.add(bytes);
    return !in.next(body) && in.is_bad();
  };
  CHECK(is_refused(frame_signer(key, false), stream));                       // turned back
  CHECK(is_refused(frame_signer(key, true), stream.substr(first)));          // one was dropped
  CHECK(is_refused(frame_signer(std::string(32, 'j'), true), stream));       // another key
  CHECK(is_refused(frame_signer(key, true), std::string("\x7f\0\0\0", 4)));  // too long
  CHECK(is_refused(frame_signer(key, true), std::string(4, '\0')));          // empty
}

TEST_CASE("a hello is read whole or not at all") {
  int rank = 0, size = 0;
  const std::string text = hello::text(3, 8, std::string(32, 'n'));
  REQUIRE(text.size() == hello::bytes);
  CHECK(hello::read(text, rank, size));
  CHECK(rank == 3);
  CHECK(size == 8);
  for (const auto& bad : {text.substr(1), text + "x", hello::text(8, 8, std::string(32, 'n')),
                          hello::text(-1, 8, std::string(32, 'n')), std::string(hello::bytes, '\0')})
    CHECK(!hello::read(bad, rank, size));
  CHECK(proof("secret", of_root, text, "n") != proof("secret", of_rank, text, "n"));
  CHECK(proof("secret", of_root, text, "n") != proof("other", of_root, text, "n"));
}

TEST_CASE("messages that no rank sends are refused, and break nothing") {
  std::mt19937 random(17);
  const std::string kinds = "hspcafbwmkdn?";
  for (const int rank : {0, 1}) {
    int refused = 0;
    for (int turn = 0; turn < 20000; ++turn) {
      rank_ledger ledger(rank, 3);
      std::string body(1, kinds[random() % kinds.size()]);
      for (std::size_t n = random() % 40; n > 0; --n) body += static_cast<char>(random() % 4 ? random() % 4 : random());
      refused += !ledger.take(rank == 0 ? 1 + static_cast<int>(random() % 2) : 0, body);
      CHECK(ledger.take_outbox().size() <= 2);
    }
    CHECK(refused > 10000);
  }
  // Rank 1 speaks for itself alone.
  rank_ledger ledger(0, 3);
  std::string forged = "p";
  put_number(forged, 2, 4);
  put_number(forged, 0, 4);
  put_text(forged, "key");
  put_text(forged, "text");
  CHECK(!ledger.take(1, forged));
  CHECK(ledger.take(2, forged));
}

TEST_CASE("an exchange waits longer than the limit for a GPU that does earlier work") {
  const environment_value timeout("SINTER_MESH_TIMEOUT", "1");
  const auto heartbeat = [](std::uint64_t count, std::uint64_t reached) {
    std::string m = "h";
    for (const std::uint64_t n : {count, std::uint64_t{1}, reached}) put_number(m, n, 8);
    put_number(m, 0, 1);
    put_number(m, 0, 4);
    put_text(m, "");
    return m;
  };
  const std::vector<int> both{0, 1};
  struct row {
    std::uint64_t count, reached;
    bool fails;
  };
  for (const row& one : {row{4, 3, false}, row{4, 4, true}, row{3, 3, true}}) {
    rank_ledger ledger(0, 2);
    ledger.join(1);
    CHECK(ledger.take(1, heartbeat(one.count, one.reached)));
    bool told = false;
    const auto judge = [&](double seconds) {
      ledger.judge(
          "all_reduce", seconds, told, [&] { return ledger.behind(both, 3, false); },
          [&] { return ledger.is_any_busy(both, 3); });
      return ledger.has_failed();
    };
    CAPTURE(one.count);
    CAPTURE(one.reached);
    CHECK(!judge(0.5));
    CHECK(judge(2) == one.fails);
    // Once its GPU has begun the exchange, the limit holds.
    CHECK(ledger.take(1, heartbeat(4, 4)));
    CHECK(judge(2));
    CHECK(ledger.failure().find("within SINTER_MESH_TIMEOUT") != std::string::npos);
  }
}
