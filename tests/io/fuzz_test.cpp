#include <doctest/doctest.h>
#include <malloc.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <new>
#include <sinter/data.hpp>
#include <sinter/io.hpp>
#include <span>
#include <string>
#include <vector>

#include "../hostile/draws.hpp"
#include "../scratch_folder.hpp"
#include "samples.hpp"

// Damaged files: never a crash, nor more memory than a small multiple of the file. SINTER_FUZZ_FILES=200000 takes so many;
// SINTER_FUZZ_FROM another first seed.

using namespace sinter;

namespace {
constinit thread_local std::size_t live = 0, most = 0;
void note(void* p) {
  live += ::malloc_usable_size(p);
  most = std::max(most, live);
}
}  // namespace

__attribute__((noinline)) void* operator new(std::size_t bytes) {
  void* const p = std::malloc(bytes ? bytes : 1);
  if (!p) throw std::bad_alloc();
  note(p);
  return p;
}
__attribute__((noinline)) void operator delete(void* p) noexcept {
  if (p) live -= std::min(live, ::malloc_usable_size(p));
  std::free(p);
}
__attribute__((noinline)) void operator delete(void* p, std::size_t) noexcept { operator delete(p); }

namespace {

using hostile::draws;

/// A file with one to four faults, some of which take parts of others.
std::string damaged(const std::string& file, const std::string& other, draws& draw) {
  static const std::string words[] = {"9223372036854775807",
                                      "18446744073709551615",
                                      "-1",
                                      "0",
                                      "4294967296",
                                      "1e308",
                                      "[",
                                      "{",
                                      "\"",
                                      "'",
                                      ",",
                                      "\n",
                                      "\r\n",
                                      "(",
                                      "\"\"",
                                      "\xff",
                                      "\xc0\x80",
                                      "\xed\xa0\x80",
                                      "nan",
                                      "True",
                                      "F64",
                                      "<f8",
                                      "|V1",
                                      "PK\x01\x02",
                                      "PK\x05\x06",
                                      "PK\x06\x06"};
  std::string s = file;
  for (std::size_t faults = 1 + draw.below(4); faults > 0; --faults) {
    const std::size_t at = draw.below(s.size()), n = std::min(draw.below(16), s.size() - at);
    const std::string& word = words[draw.below(std::size(words))];
    switch (draw.below(9)) {
      case 0:
        if (!s.empty()) s[at] ^= static_cast<char>(1 << draw.below(8));
        break;
      case 1:
        if (!s.empty()) s[at] = static_cast<char>(draw());
        break;
      case 2:
        s.resize(at);
        break;
      case 3:
        s.erase(at, n);
        break;
      case 4:
        s.insert(at, word);
        break;
      case 5:
        s.replace(at, n, word);
        break;
      case 6: {  // a number of some bytes at the ends of its range
        const std::uint64_t x = draw.below(2) ? ~std::uint64_t{0} >> draw.below(64) : draw.below(70000);
        for (std::size_t i = 0, width = std::size_t{1} << draw.below(4); i < width && at + i < s.size(); ++i)
          s[at + i] = static_cast<char>(x >> 8 * i);
        break;
      }
      case 7:
        s.insert(at, s.substr(draw.below(s.size()), draw.below(64)));
        break;
      default: {
        const std::size_t from = draw.below(other.size());
        s.insert(at, other.substr(from, draw.below(100)));
      }
    }
  }
  return s;
}

using saved = std::tuple<tensor<float, 2>, tensor<std::int64_t, 1>, std::string, bool>;

/// Reads a file as what it may be, all of it. What is read has to be there: each byte is.
void read_all(const std::string& file, std::size_t kind) {
  unsigned sum = 0;
  const auto touch = [&](const io::array& a) {
    for (const std::byte b : a.bytes()) sum += static_cast<unsigned>(b);
    CHECK(a.bytes().size() <= 1032 * file.size() + 64);
  };
  try {
    switch (kind) {
      case 0:
        touch(io::read_npy(as_bytes(file)));
        break;
      case 1:
      case 2: {
        const io::archive a = io::open_archive(as_bytes(file));
        const dtype narrow = dtype::f8_e4m3;
        for (const std::string& name : a.names()) try {
            touch(a.at(name, &narrow));
          } catch (const error&) {}
        const auto loaded = io::load<saved>(a, {.strict = file.size() % 2 == 0});
        sum += static_cast<unsigned>(std::get<2>(loaded).size());
        break;
      }
      case 3: {
        const data::table t = data::parse_csv(file);
        for (const std::string& name : t.names()) {
          if (t.kind(name) != data::column_kind::text) touch(io::to_array(t.column<double>(name)));
          if (t.kind(name) == data::column_kind::integer) touch(io::to_array(t.column<std::int64_t>(name)));
          for (const std::string& s : t.texts(name)) sum += static_cast<unsigned>(s.size());
        }
        break;
      }
      case 4:
        touch(data::read_idx(as_bytes(file)));
        break;
      default: {
        const auto text = data::byte_tokenizer().encode(file);
        CHECK(data::byte_tokenizer().decode(text) == file);
        for (std::size_t at = 0; at < file.size();) {
          const std::size_t end = data::detail::piece_end(file, at);
          REQUIRE(end > at);
          REQUIRE(end <= file.size());
          at = end;
        }
      }
    }
  } catch (const error&) {}
  CHECK(sum != 0xfeedfeed);
}

}  // namespace

TEST_CASE("damaged files of every format") {
  const char* const count_text = std::getenv("SINTER_FUZZ_FILES");
  const char* const from_text = std::getenv("SINTER_FUZZ_FROM");
  const std::size_t count = count_text ? std::stoul(count_text) : 3000, from = from_text ? std::stoul(from_text) : 1;
  const scratch_folder here;
  const saved tree{tensor<float, 2>{{1, 2}, {3, 4}}, tensor<std::int64_t, 1>{7, 8, 9}, "text", true};
  io::save(here.path + "/a.safetensors", tree, {.metadata = {{"by", "us"}}});
  io::save(here.path + "/a.npz", tree);
  io::write_npy(here.path + "/a.npy", tensor<double, 2>{{1, 2, 3}});
  const std::string ours[] = {
      content(here.path + "/a.npy"),
      content(here.path + "/a.safetensors"),
      content(here.path + "/a.npz"),
      "a,\"b, \"\"c\"\"\",d\n1,2.5,x\n-3,,\"y\nz\"\r\n4,1e9,\n",
      std::string("\0\0\x0d\2\0\0\0\1\0\0\0\2\x3f\x80\0\0\x40\0\0\0", 20),
      "It's 12 dogs' \xc3\xa9t\xc3\xa9s,\n\n  \xe4\xbd\xa0\xe5\xa5\xbd !? 'll \xc2\xa0\xd9\xa3"};
  const std::string python[] = {
      npy_file("{'descr': '>i2', 'fortran_order': True, 'shape': (2, 3), }\n", std::string(12, 'q')),
      safetensors_file(R"({"a":{"dtype":"F4","shape":[2],"data_offsets":[0,1]}})", "x"),
      zip_of_python,
      "x\n1\n\n2\n",
      gzip_of_python,
      "word  word\t\n"};
  // What is opened once stays: the system's zlib.
  static_cast<void>(data::read_idx(std::as_bytes(std::span(gzip_of_python))));
  for (std::size_t i = 0; i < count; ++i) {
    draws draw{from + i};
    const std::size_t kind = draw.below(6);
    const auto& samples = draw.below(3) ? ours : python;
    const std::string file = damaged(samples[kind], ours[draw.below(6)], draw);
    INFO("seed ", from + i);
    const std::size_t before = most = live;
    read_all(file, kind);
    // What is deflated may be 1032 times as long, and is written into twice what there was.
    const bool deflates = kind == 2 || kind == 4;
    CHECK(most - before <= (deflates ? 4096 : 64) * file.size() + 65536);
  }
}
