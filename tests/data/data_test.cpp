#include <doctest/doctest.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdio>
#include <limits>
#include <map>
#include <numeric>
#include <sinter/data.hpp>
#include <stdexcept>
#include <string>
#include <tuple>

#include "../io/samples.hpp"
#include "../scratch_folder.hpp"

using namespace sinter;

namespace {

struct digits {
  tensor<float, 2> x;
  tensor<std::int64_t, 1> y;
  int classes = 10;
};

/// Rows that tell their place.
digits numbered(std::int64_t n) {
  const auto y = arange<std::int64_t>(n);
  return {expand_dims<1>(cast<float>(y)) * tensor<float, 1>{1, 10}, y};
}

template <class Error, class F>
std::string message_of(F&& f) {
  try {
    f();
  } catch (const Error& e) {
    return e.what();
  }
  return "";
}
bool has(const std::string& text, const char* part) { return text.find(part) != std::string::npos; }

/// The labels of an epoch, and the lengths of its batches.
template <class Range>
std::pair<std::vector<std::int64_t>, std::vector<std::int64_t>> labels_of(const Range& range) {
  std::pair<std::vector<std::int64_t>, std::vector<std::int64_t>> out;
  for (auto& [x, y, classes] : range) {
    CHECK(classes == 10);
    CHECK(x.size(0) == y.size(0));
    for (std::int64_t i = 0; i < y.size(0); ++i) {
      CHECK(x(i, 1) == 10 * static_cast<float>(y(i)));
      out.first.push_back(y(i));
    }
    out.second.push_back(static_cast<std::int64_t>(y.size(0)));
  }
  return out;
}

}  // namespace

TEST_CASE("batches: in order, shuffled by a key, without the last one, from a later one, by a thread") {
  const digits d = numbered(11);
  const auto [all, lengths] = labels_of(data::batches(d, {.size = 4}));
  CHECK(lengths == std::vector<std::int64_t>{4, 4, 3});
  CHECK(all == arange<std::int64_t>(11).to_vector());
  const auto mixed = data::batches(d, {.size = 4, .shuffle = make_key(3)});
  CHECK(mixed.size() == 3);
  CHECK(mixed.rows() == 11);
  const auto [one, its] = labels_of(mixed);
  CHECK(one != all);
  CHECK(labels_of(mixed).first == one);
  for (const int ahead : {1, 2, 9})
    CHECK(labels_of(data::batches(d, {.size = 4, .shuffle = make_key(3), .prefetch = ahead})).first == one);
  CHECK(labels_of(data::batches(d, {.size = 4, .shuffle = fold_in(make_key(3), 1)})).first != one);
  auto sorted = one;
  std::sort(sorted.begin(), sorted.end());
  CHECK(sorted == all);
  // The order is what is written here, in every version.
  CHECK(data::detail::order_of(8, 42) == std::vector<std::int64_t>{3, 1, 6, 2, 4, 0, 7, 5});
  const auto [later, two] =
      labels_of(data::batches(d, {.size = 4, .shuffle = make_key(3), .drop_last = true, .first = 1}));
  CHECK(later == std::vector<std::int64_t>(one.begin() + 4, one.begin() + 8));
  // What is written into a batch is not the dataset's.
  for (auto& batch : data::batches(d, {.size = 11})) batch.x.fill(-1);
  CHECK(d.x(3, 0) == 3);
  // A loop that ends early ends the thread.
  for (auto& batch : data::batches(d, {.size = 1, .prefetch = 3}))
    if (batch.y(0) == 2) break;
  int none = 0;
  for ([[maybe_unused]] auto& batch : data::batches(d, {.size = 12, .drop_last = true})) ++none;
  CHECK(none == 0);
}

TEST_CASE("batches: a short last one makes no specialisation of its own") {
  const auto step =
      compile([](const tensor<float, 2>& x, const tensor<std::int64_t, 1>& y) { return sum(x) + cast<float>(sum(y)); },
              {.backend = "reference"});
  float total = 0;
  for (int epoch = 0; epoch < 2; ++epoch)
    for (auto& [x, y, classes] : data::batches(numbered(11), {.size = 4, .shuffle = fold_in(make_key(1), epoch)}))
      total += step(x, y).item();
  CHECK(total == 2 * 12 * 55);
  CHECK(step.specialisations() == 1);
}

TEST_CASE("batches: items of a function, strided tensors, what is refused") {
  std::atomic<int> made{0};
  const data::items squares{5, [&made](std::int64_t i) {
                              ++made;
                              return std::pair{full<float>(static_cast<float>(i * i), 2), tensor<std::int64_t, 0>(i)};
                            }};
  std::vector<std::int64_t> seen;
  for (auto& [x, y] : data::batches(squares, {.size = 2, .prefetch = 2})) {
    CHECK(x(0, 1) == static_cast<float>(y(0) * y(0)));
    for (const std::int64_t i : y.to_vector()) seen.push_back(i);
  }
  CHECK(seen == std::vector<std::int64_t>{0, 1, 2, 3, 4});
  CHECK(made == 5);
  const tensor<float, 2> x{{1, 2, 3}, {4, 5, 6}};
  for (const auto& b : data::batches(transpose(x), {.size = 3}))
    CHECK(tensor<float, 2>(b).to_vector() == std::vector<float>{1, 4, 2, 5, 3, 6});
  for (const int ahead : {0, 2}) {
    const data::items bad{4, [](std::int64_t i) {
                            if (i == 2) throw std::runtime_error("no item");
                            return tensor<float, 1>{1};
                          }};
    int good = 0;
    CHECK(message_of<std::runtime_error>([&] {
            for ([[maybe_unused]] auto& b : data::batches(bad, {.size = 1, .prefetch = ahead})) ++good;
          }) == "no item");
    CHECK(good == 2);
  }
  const std::string said = message_of<user_error>([&] { data::batches(std::pair{x, arange<int>(3)}); });
  CHECK(has(said, "[data::batches] the tensors of the dataset have 2 and 3 rows"));
  CHECK(has(said, "data_test.cpp:"));
  CHECK(has(message_of<user_error>([&] { data::batches(x, {.size = 0}); }), ".size is 0"));
}

TEST_CASE("csv: headers, quotes, dtypes, empty cells, and where a mistake is") {
  const data::table t = data::parse_csv(
      "\xef\xbb\xbfid,\"a \"\"b\"\"\",city\r\n1, 2.5,\"Pisa, \"\"x\"\"\"\r\n\n-3,,\"New\nYork\"\n+4,1e-400,Pisa");
  CHECK(t.rows() == 3);
  CHECK(t.names() == std::vector<std::string>{"id", "a \"b\"", "city"});
  CHECK(t.kind("id") == data::column_kind::integer);
  CHECK(t.kind("a \"b\"") == data::column_kind::number);
  CHECK(t.kind("city") == data::column_kind::text);
  CHECK(t.column<std::int8_t>("id").to_vector() == std::vector<std::int8_t>{1, -3, 4});
  const auto a = t.column<float>("a \"b\"");
  CHECK(a(0) == 2.5f);
  CHECK(std::isnan(a(1)));
  CHECK(a(2) == 0);
  CHECK(t.texts("city") == std::vector<std::string>{"Pisa, \"x\"", "New\nYork", "Pisa"});
  const auto [codes, names] = t.categories("city");
  CHECK(codes.to_vector() == std::vector<std::int64_t>{2, 0, 1});
  CHECK(names.size() == 3);
  CHECK(t.matrix<double>({"id", "id"})(1, 1) == -3);
  CHECK(has(message_of<user_error>([&] { t.column<int>("a \"b\""); }), "text:2, column a \"b\": \"2.5\" is no i32"));
  CHECK(has(message_of<user_error>([&] { t.column<std::uint8_t>("id"); }), "text:4, column id: \"-3\" is no u8"));
  CHECK(has(message_of<user_error>([&] { t.column<float>("no"); }), "has no column \"no\"; it has id, a \"b\", city"));
  const scratch_folder here;
  put_file(here.path + "/t.csv", "1;2\n3;4\n");
  const data::table plain = data::read_csv(here.path + "/t.csv", {.header = false, .separator = ';'});
  CHECK(plain.matrix<std::int32_t>().to_vector() == std::vector<std::int32_t>{1, 2, 3, 4});
  const auto said = [](const char* text) { return message_of<system_error>([&] { data::parse_csv(text); }); };
  CHECK(has(said("a,b\n1,2\n3\n"), "text:3: 1 cells, where the first line has 2"));
  CHECK(has(said("a,b\n1,\"2\n"), "text:2: a quote is not closed"));
  CHECK(has(said("a,b\n1,\"2\"x\n"), "text:2: a quoted cell goes on"));
  CHECK(has(said("\n\n"), "has no line"));
}

TEST_CASE("csv: lines end in LF, CR LF or CR, also one after the other") {
  for (const char* text : {"a,b\n1,2\n3,4\n", "a,b\r\n1,2\r\n3,4\r\n", "a,b\r1,2\r3,4\r", "a,b\r1,2\r3,4",
                           "\ra,b\r\r\n1,2\n\r3,4\r\r", "\"a\",\"b\"\r\"1\",2\r3,\"4\"\r"}) {
    CAPTURE(text);
    const data::table t = data::parse_csv(text);
    CHECK(t.names() == std::vector<std::string>{"a", "b"});
    CHECK(t.matrix<double>().to_vector() == std::vector<double>{1, 2, 3, 4});
  }
  // Within quotes a CR is one.
  const data::table t = data::parse_csv("a\r\"x\ry\"\r\"\r\"\r");
  CHECK(t.texts("a") == std::vector<std::string>{"x\ry", "\r"});
  const auto said = [](const char* text) { return message_of<system_error>([&] { data::parse_csv(text); }); };
  CHECK(has(said("a,b\r1,2\r3\r"), "text:3: 1 cells, where the first line has 2"));
  CHECK(has(said("a,b\r\n1,2\r\n3\r\n"), "text:3: 1 cells"));
  CHECK(has(said("a,b\r1,\"2\"x\r"), "text:2: a quoted cell goes on"));
  CHECK(has(message_of<user_error>([&] { data::parse_csv("a\r1\rx\r").column<int>("a"); }), "text:3, column a: \"x\""));
}

TEST_CASE("csv: a matrix of one column, of several and of names that are not literals") {
  const data::table t = data::parse_csv("a,b\n1,2\n3,4\n");
  CHECK(t.matrix<double>({"a"}).to_vector() == std::vector<double>{1, 3});
  CHECK(t.matrix<double>({"b", "a"}).to_vector() == std::vector<double>{2, 1, 4, 3});
  CHECK(t.matrix<double>({"b", "a", "b"})(1, 2) == 4);
  const std::string b = "b";
  const std::vector<std::string> names{"b"};
  CHECK(t.matrix<double>({b}).to_vector() == std::vector<double>{2, 4});
  CHECK(t.matrix<double>({b, "a"})(0, 1) == 1);
  CHECK(t.matrix<double>(names).to_vector() == std::vector<double>{2, 4});
  CHECK(t.matrix<double>({names[0]}).to_vector() == std::vector<double>{2, 4});
  CHECK(t.matrix<double>().size(1) == 2);
  CHECK(t.matrix<double>({1}).to_vector() == std::vector<double>{2, 4});
  CHECK(t.matrix<double>({0}).to_vector() == std::vector<double>{1, 3});
  CHECK(t.matrix<double>({-1, 0, 1}).to_vector() == std::vector<double>{2, 1, 2, 4, 3, 4});
  CHECK(t.matrix<double>({"b", 0}).to_vector() == std::vector<double>{2, 1, 4, 3});
  const std::vector<std::int64_t> places{1, -2};
  CHECK(t.matrix<double>(places).to_vector() == std::vector<double>{2, 1, 4, 3});
  CHECK(t.column<int>(0).to_vector() == std::vector<int>{1, 3});
  CHECK(t.column<int>(-1).to_vector() == std::vector<int>{2, 4});
  CHECK(t.texts(1) == std::vector<std::string>{"2", "4"});
  CHECK(t.kind(std::size_t{1}) == data::column_kind::integer);
  CHECK(t.categories(-2).second == std::vector<std::string>{"1", "3"});
  const auto numbered = [&](auto j) { return message_of<user_error>([&] { t.column<float>(j); }); };
  CHECK(has(numbered(2), "text has no column 2; it has 2, from 0 on, or from -1 on backwards"));
  CHECK(has(numbered(-3), "text has no column -3"));
  CHECK(has(numbered(std::numeric_limits<std::int64_t>::min()), "text has no column -9223372036854775808"));
  CHECK(has(numbered(~std::uint64_t{0} - 1), "text has no column 9223372036854775807"));
  const std::string said = message_of<user_error>([&] { t.matrix<double>({"no"}); });
  CHECK(has(said, "has no column \"no\""));
  CHECK(has(said, "data_test.cpp:"));
}

TEST_CASE("train_test_split: each row once, in an order that a key gives") {
  const digits d = numbered(11);
  const auto [train, test] = data::train_test_split(d);
  CHECK(train.y.to_vector() == arange<std::int64_t>(8).to_vector());
  CHECK(test.y.to_vector() == std::vector<std::int64_t>{8, 9, 10});
  CHECK(test.x(2, 1) == 100);
  CHECK(train.classes == 10);
  const auto drawn = [&](std::uint64_t seed) {
    return data::train_test_split(d, {.test = 0.2, .shuffle = make_key(seed)});
  };
  const auto [a, b] = drawn(1);
  CHECK(a.y.size(0) == 8);
  CHECK(b.x.size(0) == 3);
  std::vector<std::int64_t> all = a.y.to_vector();
  for (const auto i : b.y.to_vector()) all.push_back(i);
  CHECK(all != arange<std::int64_t>(11).to_vector());
  CHECK(b.y.to_vector() == drawn(1).second.y.to_vector());
  CHECK(all.front() != drawn(2).first.y(0));
  std::sort(all.begin(), all.end());
  CHECK(all == arange<std::int64_t>(11).to_vector());
  for (std::int64_t i = 0; i < 3; ++i) CHECK(b.x(i, 0) == static_cast<float>(b.y(i)));

  const auto pair = data::train_test_split(std::tuple{d.x, d.y}, {.test = 0.5});
  CHECK(std::get<1>(pair.first).size(0) == 5);
  const data::items squares{4, [](std::int64_t i) { return full<float>(static_cast<float>(i * i), 2); }};
  CHECK(data::train_test_split(squares).second(0, 1) == 9);
  const auto said = [&](const auto& d, double test) {
    return message_of<user_error>([&] { data::train_test_split(d, {.test = test}); });
  };
  CHECK(has(said(d, 0), "[data::train_test_split] .test = 0.000000 of 11 rows leaves one part empty"));
  for (const double test : {1.0, 2.0, -1.0, 0.95, std::nan(""), std::numeric_limits<double>::infinity()})
    CHECK(has(said(d, test), "leaves one part empty"));
  CHECK(has(said(numbered(1), 0.5), "of 1 rows"));
  CHECK(has(said(numbered(0), 0.5), "of 0 rows"));
  CHECK(has(said(digits{zeros<float>(3, 2), zeros<std::int64_t>(4)}, 0.5),
            "[data::train_test_split] the tensors of the dataset have 3 and 4 rows"));
}

TEST_CASE("fit_standard_scaler: mean 0, variance 1, columns of one value, NaN left out") {
  const double none = std::nan("");
  const tensor<double, 2> x{{1, 7, none, 0.1}, {2, 7, 4, 0.1}, {6, 7, 8, 0.1}};
  const auto scale = data::fit_standard_scaler(x);
  CHECK(scale.mean(0) == doctest::Approx(3).epsilon(1e-15));
  CHECK(scale.deviation(0) == doctest::Approx(std::sqrt(14.0 / 3)).epsilon(1e-14));
  CHECK(scale.deviation(1) == 1);
  CHECK(scale.mean(2) == 6);
  CHECK(scale.deviation(2) == 2);
  CHECK(scale.deviation(3) == 1);
  const auto y = scale(x);
  CHECK(y(2, 0) == doctest::Approx(3 / std::sqrt(14.0 / 3)).epsilon(1e-14));
  CHECK(y(1, 1) == 0);
  CHECK(std::isnan(y(0, 2)));
  CHECK(y(1, 2) == -1);
  CHECK(std::abs(y(0, 3)) < 1e-15);
  CHECK(scale.inverse(y)(2, 0) == doctest::Approx(6).epsilon(1e-14));
  // Rows beside a large mean, in f32: by the digits of f64.
  tensor<float, 1> far = zeros<float>(1000);
  for (std::int64_t i = 0; i < 1000; ++i) far.data()[i] = static_cast<float>(1000000 + i % 2);
  const auto one = data::fit_standard_scaler(far);
  CHECK(one.mean.item() == 1000000.5f);
  CHECK(one.deviation.item() == 0.5f);
  const auto same = compile([](const data::standard_scaler<double>& s, const tensor<double, 2>& x) { return s(x); });
  CHECK(same(scale, x)(2, 0) == doctest::Approx(y(2, 0)).epsilon(1e-15));
  CHECK(tree_paths(scale) == std::vector<std::string>{"mean", "deviation"});
  CHECK(has(message_of<user_error>([] { data::fit_standard_scaler(zeros<float>(0, 2)); }),
            "[data::fit_standard_scaler] x has no rows"));
}

TEST_CASE("idx: plain and compressed") {
  const scratch_folder here;
  put_file(here.path + "/t.gz", gzip_of_python);
  CHECK(data::read_idx<std::int16_t, 2>(here.path + "/t.gz").to_vector() == std::vector<std::int16_t>{1, -2, 3, 400});
  const io::array bytes = data::read_idx(as_bytes(std::string_view("\0\0\x08\1\0\0\0\2\7\x09", 10)));
  CHECK(io::to_tensor<std::uint8_t, 1>(bytes).to_vector() == std::vector<std::uint8_t>{7, 9});
  const auto said = [](std::string_view s) { return message_of<system_error>([&] { data::read_idx(as_bytes(s)); }); };
  CHECK(has(said(std::string_view("\0\0\x08\1\0\0\0\3\7\x09", 10)), "has 2 bytes of elements, and u8 (3,) has not"));
  CHECK(has(said(std::string_view("\0\0\x0e\4\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff", 20)),
            "has 0 bytes"));
  CHECK(has(said("text of a file"), "is no .idx file"));
  std::string cut = gzip_of_python;
  cut.resize(cut.size() - 12);
  CHECK(has(said(cut), "what is deflated cannot be read"));
}

namespace {

/// Pieces of a text as GPT-2's pattern takes them, joined by |.
std::string pieces(std::string_view text) {
  std::string out;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = data::detail::piece_end(text, at);
    (out += out.empty() ? "" : "|") += text.substr(at, end - at);
    at = end;
  }
  return out;
}

/// A byte as GPT-2's files spell it.
std::string spelled(unsigned b) {
  const auto seen = [](unsigned x) { return (x > 32 && x < 127) || (x > 160 && x != 173 && x < 256); };
  unsigned code = b;
  if (!seen(b)) {
    code = 256;
    for (unsigned x = 0; x < b; ++x) code += !seen(x);
  }
  if (code < 0x80) return std::string(1, static_cast<char>(code));
  return {static_cast<char>(0xc0 | code >> 6), static_cast<char>(0x80 | (code & 63))};
}

using symbols = std::vector<std::string>;
/// All of a pair joined.
symbols joined(const symbols& s, const std::string& a, const std::string& b) {
  symbols out;
  for (std::size_t i = 0; i < s.size(); ++i)
    if (i + 1 < s.size() && s[i] == a && s[i + 1] == b) out.push_back(a + b), ++i;
    else out.push_back(s[i]);
  return out;
}

}  // namespace

TEST_CASE("text: pieces of GPT-2's pattern") {
  CHECK(pieces("Hello world's  test") == "Hello| world|'s| | test");
  CHECK(pieces("a\n\nfoo 123abc!! 'llama'") == "a|\n|\n|foo| 123|abc|!!| '|llama|'");
  CHECK(pieces("we'll 'll  ") == "we|'ll| '|ll|  ");
  CHECK(pieces("\xc3\xa9t\xc3\xa9 \xe4\xbd\xa0\xe5\xa5\xbd\xd9\xa3\xc2\xbd \xf0\x9f\x98\x80x") ==
        "\xc3\xa9t\xc3\xa9| \xe4\xbd\xa0\xe5\xa5\xbd|\xd9\xa3\xc2\xbd| \xf0\x9f\x98\x80|x");
  CHECK(pieces("a\xc2\xa0\xe2\x80\x83z\xff\xfe") == "a|\xc2\xa0|\xe2\x80\x83|z|\xff\xfe");
}

TEST_CASE("text: byte-pair encoding by files as GPT-2's, against its rule by hand") {
  const std::string sample =
      "the theme of the thing there, then these 'thes' \xc3\xa9th\xc3\xa9 aaaa aaa\n\n  the end\xff";
  // Train: the pair that is most frequent, thirty times.
  std::vector<symbols> words;
  for (std::size_t at = 0; at < sample.size();) {
    const std::size_t end = data::detail::piece_end(sample, at);
    symbols w;
    for (std::size_t i = at; i < end; ++i) w.push_back(std::string(1, sample[i]));
    words.push_back(w);
    at = end;
  }
  std::vector<std::pair<std::string, std::string>> merges;
  for (int k = 0; k < 30; ++k) {
    std::map<std::pair<std::string, std::string>, int> counts;
    for (const auto& w : words)
      for (std::size_t i = 0; i + 1 < w.size(); ++i) ++counts[{w[i], w[i + 1]}];
    const auto best =
        std::max_element(counts.begin(), counts.end(), [](auto& a, auto& b) { return a.second < b.second; });
    merges.push_back(best->first);
    for (auto& w : words) w = joined(w, merges.back().first, merges.back().second);
  }
  const auto spell = [](const std::string& bytes) {
    std::string out;
    for (const char c : bytes) out += spelled(static_cast<unsigned char>(c));
    return out;
  };
  const auto quoted = [](const std::string& s) {
    std::string out = "\"";
    for (const char c : s) out += c == '"' || c == '\\' ? std::string("\\") + c : std::string(1, c);
    return out + "\"";
  };
  std::string vocabulary = "{", rules = "#version: 0.2\n";
  int id = 0;
  for (unsigned b = 256; b-- > 0; ++id) vocabulary += (id ? ", " : "") + quoted(spelled(b)) + ": " + std::to_string(id);
  for (const auto& [a, b] : merges) {
    vocabulary += ", " + quoted(spell(a + b)) + ": " + std::to_string(id++);
    rules += spell(a) + " " + spell(b) + "\n";
  }
  vocabulary += ", \"<|endoftext|>\": " + std::to_string(id) + "}";
  const scratch_folder here;
  put_file(here.path + "/vocab.json", vocabulary);
  put_file(here.path + "/merges.txt", rules);
  const data::bpe_tokenizer t(here.path + "/vocab.json", here.path + "/merges.txt");
  CHECK(t.size() == 287);
  CHECK(t.id("<|endoftext|>") == 286);
  CHECK(t.id("z") == 255 - 'z');
  const std::string text = sample + " other text: the aaaaaaa, theses \xf0\x9f\x98\x80 \t thethe\r\n";
  std::vector<std::int64_t> want;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = data::detail::piece_end(text, at);
    symbols w;
    for (std::size_t i = at; i < end; ++i) w.push_back(std::string(1, text[i]));
    for (const auto& [a, b] : merges) w = joined(w, a, b);
    for (const std::string& s : w) want.push_back(t.id(s));
    at = end;
  }
  const auto ids = t.encode(text);
  CHECK(ids == want);
  CHECK(ids.size() < text.size() * 3 / 4);
  CHECK(t.decode(ids) == text);
  CHECK(t.encode(t.decode(ids)) == ids);
  // Long pieces take no quadratic time.
  CHECK(t.decode(t.encode(std::string(300000, 'a'))).size() == 300000);
  CHECK(has(message_of<user_error>([&] { t.decode(std::vector<std::int64_t>{287}); }),
            "there is no token 287; they are 0 to 286"));
  const auto said = [&](const std::string& v, const std::string& m) {
    put_file(here.path + "/v", v);
    put_file(here.path + "/m", m);
    return message_of<system_error>([&] { data::bpe_tokenizer(here.path + "/v", here.path + "/m"); });
  };
  CHECK(has(said("{\"a\": 0}", ""), "it has no token for byte 0"));
  CHECK(has(said("{\"a\": 7}", ""), "not numbered from 0 on"));
  CHECK(has(said("{\"a\": 0, \"b\": 0}", ""), "two tokens are 0"));
  CHECK(has(said("{\"a\": [0]}", ""), "an array"));
  CHECK(has(said("{\"a\"", ""), "JSON is damaged"));
  CHECK(has(said(vocabulary, "t h\nq q\n"), "m:2: has tokens that the vocabulary has not"));
  CHECK(has(said(vocabulary, "th\n"), "m:1: is no pair of tokens"));
}

TEST_CASE("text: bytes and the bytes of a text") {
  const std::string text = "ab\xff a";
  CHECK(data::byte_tokenizer().encode(text) == std::vector<std::int64_t>{97, 98, 255, 32, 97});
  CHECK(data::byte_tokenizer().decode(data::byte_tokenizer().encode(text)) == text);
  const data::char_tokenizer t(text);
  CHECK(t.size() == 4);
  CHECK(t.encode("a b") == std::vector<std::int64_t>{1, 0, 2});
  CHECK(t.decode(t.encode(text)) == text);
  CHECK(has(message_of<user_error>([&] { t.encode("c"); }), "no byte 99"));
  const std::int64_t id = 98;
  const int narrow = 97;
  const std::vector<std::int64_t> ids{97, 98};
  CHECK(data::byte_tokenizer().decode({id}) == "b");
  CHECK(data::byte_tokenizer().decode({id, narrow, 255}) == "ba\xff");
  CHECK(data::byte_tokenizer().decode({}) == "");
  CHECK(data::byte_tokenizer().decode({ids.data(), 1}) == "a");
  CHECK(data::byte_tokenizer().decode({ids.begin(), ids.end()}) == "ab");
  CHECK(data::byte_tokenizer().decode(ids) == "ab");
  CHECK(t.decode({t.encode("b")[0]}) == "b");
  CHECK(has(message_of<user_error>([&] { t.decode({4}); }), "there is no token 4"));
  CHECK(has(message_of<user_error>([&] { t.decode({4}); }), "data_test.cpp:"));
}

TEST_CASE("progress: a line for each tenth where there is no terminal") {
  std::FILE* const file = std::tmpfile();
  data::progress_bar bar(20, file);
  for (int i = 1; i <= 20; ++i) bar.show(i, "loss " + std::to_string(i));
  std::rewind(file);
  std::string text(4096, '\0');
  text.resize(std::fread(text.data(), 1, text.size(), file));
  std::fclose(file);
  CHECK(text.starts_with("   10 %  loss 2\n   20 %  loss 4\n"));
  CHECK(text.ends_with("  100 %  loss 20\n"));
}
