#include <doctest/doctest.h>
#include <sys/stat.h>
#include <sinter/run/build/save_bundle.hpp>

#include <algorithm>
#include <set>
#include <thread>

#include "../support.hpp"

namespace run = sinter::engine::run;
using sinter::engine::kernel_entry;
using support::variable;

namespace {

/// A printed kernel that writes `value`, by a macro that the others define otherwise.
std::string printed(int value, const std::string& marker) {
  return "// " + marker + "\n#define VALUE " + std::to_string(value) +
         "\n#line 7 \"user.cpp\"\nstruct own { int x[1 + " + std::to_string(value % 3) +
         "]; };\nextern \"C\" void sinter_kernel(void* const* p, char*, const long*) { *(int*)p[0] = VALUE; }\n";
}

int written(const run::built& b) {
  int out = -1;
  void* p[] = {&out};
  b.entry()(p, nullptr, nullptr);
  return out;
}

std::vector<std::string> printed(int first, int last, const std::string& marker) {
  std::vector<std::string> out;
  for (int i = first; i < last; ++i) out.push_back(printed(i, marker));
  return out;
}

/// A fresh cache, and a compiler that notes each run, and the entries of each text that it compiles.
struct watched {
  support::folder root;
  std::string log = root.at("log"), entries = root.at("entries");
  variable cache{"SINTER_CACHE_DIR", root.at("cache")};
  variable chosen{"SINTER_CXX",
                  support::script(root, "c++",
                                  "for a; do case $a in *.cpp) echo run >> " + support::quoted(log) +
                                      "; grep -o 'sinter_kernel_[0-9a-f]*' \"$a\" >> " + support::quoted(entries) +
                                      ";; esac; done\nexec " + support::quoted(support::real_compiler()) + " \"$@\"")};
  int runs() const { return support::lines(log); }
};

/// Files of a folder, each once however many names it has.
std::size_t files_of(const std::string& path) {
  std::set<ino_t> out;
  for (const auto& name : support::files(path)) {
    struct stat info {};
    REQUIRE(::stat(name.c_str(), &info) == 0);
    out.insert(info.st_ino);
  }
  return out.size();
}

}  // namespace

TEST_CASE("a printed text's entry is named by what it does, another's is left alone") {
  const std::string text = printed(1, "named"),
                    elsewhere = text.substr(0, text.find('7')) + "8" + text.substr(text.find('7') + 1);
  REQUIRE(text != elsewhere);
  CHECK(run::entry_suffix(text).size() == 17);
  CHECK(run::entry_suffix(text) == run::entry_suffix(elsewhere));
  CHECK(run::entry_suffix(text) != run::entry_suffix(printed(2, "named")));
  CHECK(support::contains(run::detail::named_text(text), "void sinter_kernel" + run::entry_suffix(text) + "("));
  const std::string other = support::kernel(1, "sinter_kernel of a user");
  CHECK(run::entry_suffix(other).empty());
  CHECK(run::detail::named_text(other) == other);
  CHECK(run::name_in_image("answer", "_1") == "answer");
  CHECK(run::name_in_image(kernel_entry, "_1") == "sinter_kernel_1");
}

TEST_CASE("units are as many as run side by side, equally long, and never too large") {
  std::vector<std::string> texts = printed(0, 40, "units");
  texts[3] += std::string(5 * texts[0].size(), ' ');
  texts[7] = support::kernel(1, "alone");
  std::vector<const std::string*> given;
  for (const auto& t : texts) given.push_back(&t);
  for (const std::size_t cores : {1, 2, 4, 16, 64}) {
    const auto units = run::detail::units_of(given, cores);
    CHECK(units.size() == 1 + std::min<std::size_t>(39, std::max<std::size_t>(cores, 2)));
    std::set<std::size_t> all;
    for (const auto& u : units) {
      CHECK_FALSE(u.empty());
      CHECK(u.size() <= run::detail::max_in_unit);
      if (std::count(u.begin(), u.end(), 7u) != 0) CHECK(u.size() == 1);
      if (std::count(u.begin(), u.end(), 3u) != 0 && cores == 16) CHECK(u.size() == 1);
      all.insert(u.begin(), u.end());
    }
    CHECK(all.size() == 40);
  }
  CHECK(run::detail::units_of({}, 2).empty());
}

TEST_CASE("texts of a unit have their common prelude once, and each has its own functions and macros") {
  const auto part = [](const char* name, const std::string& value) {
    return "\nnamespace sx {\n#define " + std::string(name) + "_OF_PART " + value + "\nstatic int " + name +
           "() { return " + name + "_OF_PART; }\n}  // namespace sx\n";
  };
  const auto text = [&](const std::string& first, std::vector<std::string> rest, const std::string& result) {
    std::string out = "// label of " + result + part("first", first) + "using namespace sx;\n";
    for (const auto& p : rest) out += p;
    return out + "static int own() { return " + result +
           "; }\nextern \"C\" void sinter_kernel(void* const* p, char*, const long*) { *(int*)p[0] = own(); }\n";
  };
  const std::string a = part("a", "10"), b = part("b", "200"), c = part("c", "3000");
  const std::vector<std::string> texts = {text("1", {a, c}, "first() + a() + c()"), text("1", {b}, "first() + b()"),
                                          text("1", {b, c}, "first() + b() + c_OF_PART"),
                                          text("2", {a, b}, "first() + a() + b()"), printed(5, "without")};
  std::vector<const std::string*> given;
  for (const auto& t : texts) given.push_back(&t);
  const std::string unit = run::detail::unit_text(given);
  const auto count = [&](const std::string& what) {
    int n = 0;
    for (auto at = unit.find(what); at != std::string::npos; at = unit.find(what, at + 1)) ++n;
    return n;
  };
  CHECK(count("static int first()") == 2);
  CHECK(count("static int a()") == 2);
  CHECK(count("static int c()") == 1);
  CHECK(count("static int own()") == 4);
  const watched w;
  const auto made = run::build(texts);
  CHECK(w.runs() == static_cast<int>(std::min(5u, std::max(1u, std::thread::hardware_concurrency()))));
  std::vector<int> got;
  for (const auto& m : made) got.push_back(written(m));
  CHECK(got == std::vector<int>{3011, 201, 3201, 212, 5});
}

TEST_CASE("a prelude's parts are merged in an order that agrees with each text") {
  using parts = std::vector<std::string_view>;
  const auto merged = [](const std::vector<parts>& given) {
    sinter::series<sinter::series<std::string_view>> all;
    for (const auto& g : given) all.emplace_back(g.begin(), g.end());
    const auto out = run::detail::merged_preludes(std::move(all));
    return parts(out.begin(), out.end());
  };
  CHECK(merged({}).empty());
  CHECK(merged({{}}).empty());
  CHECK(merged({{"a", "c"}}) == parts{"a", "c"});
  CHECK(merged({{"a", "c"}, {"a", "b", "c"}, {"a", "d"}}) == parts{"a", "b", "c", "d"});
  CHECK(merged({{"b", "d"}, {"c", "d"}, {"a", "b"}}) == parts{"c", "a", "b", "d"});
  CHECK(merged({{"a", "b"}, {"b", "a"}}).empty());
}

TEST_CASE("many kernels take few runs of the compiler, and each is found again by itself") {
  const watched w;
  const auto texts = printed(0, 20, "many");
  const std::size_t units = std::max<std::size_t>(1, std::min(20u, std::max(1u, std::thread::hardware_concurrency())));
  {
    const auto made = run::build(texts);
    CHECK(w.runs() == static_cast<int>(units));
    double total = 0;
    for (std::size_t i = 0; i < made.size(); ++i) {
      CHECK(written(made[i]) == static_cast<int>(i));
      CHECK_FALSE(made[i].from_cache);
      CHECK(std::string_view(made[i].from.tier) == "compiled");
      total += made[i].milliseconds;
    }
    CHECK(total > 0);
  }
  for (int i = 19; i >= 0; --i) {
    const auto made = run::build(std::vector<std::string>{texts[static_cast<std::size_t>(i)]});
    CHECK(made[0].from_cache);
    CHECK(written(made[0]) == i);
  }
  CHECK(w.runs() == static_cast<int>(units));
  // All at once they are as many images as there were units.
  std::set<const void*> images;
  const auto made = run::build(texts);
  for (std::size_t i = 0; i < made.size(); ++i) {
    CHECK(written(made[i]) == static_cast<int>(i));
    images.insert(made[i].code.get());
  }
  CHECK(images.size() == units);
  CHECK(files_of(w.root.at("cache")) == units);
  // And so it is in a bundle.
  CHECK(run::save_bundle(w.root.at("all.bundle"), "save_cache", {"user.cpp", 7}) == 20);
  std::string why;
  const std::string bundle = support::contents(w.root.at("all.bundle"));
  std::set<const char*> of_bundle;
  for (const auto& k : run::detail::unpack_bundle(bundle, why)) of_bundle.insert(k.image.data());
  CHECK(of_bundle.size() == units);
}

TEST_CASE("a broken kernel in a unit is named, and once it is mended all build") {
  const watched w;
  auto texts = printed(0, 20, "broken");
  texts[11] += "int undeclared() { return missing_name; }\n";
  try {
    run::build(texts);
    FAIL("it does not compile");
  } catch (const run::compile_error& e) {
    CHECK(support::contains(e.what(), "missing_name"));
    CHECK(support::contents(e.source_path()) == texts[11]);
  }
  texts[11] = printed(11, "broken");
  const auto made = run::build(texts);
  for (std::size_t i = 0; i < made.size(); ++i) CHECK(written(made[i]) == static_cast<int>(i));
}

TEST_CASE("threads whose units overlap compile each kernel once") {
  const watched w;
  std::vector<std::thread> threads;
  std::vector<int> wrong(6, -1);
  for (int t = 0; t < 6; ++t)
    threads.emplace_back([&, t] {
      auto texts = printed(2 * t, 2 * t + 16, "overlapping");
      if (t % 2 == 1) std::reverse(texts.begin(), texts.end());
      wrong[static_cast<std::size_t>(t)] = 0;
      const auto made = run::build(texts);
      for (int i = 0; i < 16; ++i)
        wrong[static_cast<std::size_t>(t)] +=
            written(made[static_cast<std::size_t>(i)]) != 2 * t + (t % 2 == 1 ? 15 - i : i);
    });
  for (auto& t : threads) t.join();
  CHECK(wrong == std::vector<int>(6, 0));
  std::multiset<std::string> names;
  std::ifstream in(w.entries);
  for (std::string line; std::getline(in, line);) names.insert(line);
  CHECK(names.size() == 26);
  CHECK(std::set<std::string>(names.begin(), names.end()).size() == 26);
}
