// Pages of traces beside those of other processes.
#include <doctest/doctest.h>
#include <sinter/run/trace_file.hpp>

#include <string>

#include "../unnamed_files.hpp"
#include "support.hpp"

using support::contents, support::folder;
namespace files = sinter::engine::run::detail;

TEST_CASE("a page takes the first name that nothing has, of a process of equal number or a link") {
  for (const bool without : {false, true}) {
    no_unnamed_files = without;
    const folder root;
    support::write(root.at("page-1"), "theirs");
    support::write(root.at("victim"), "precious");
    support::fs::create_symlink(root.at("victim"), root.at("page-2"));
    for (int page = 3; page < 5; ++page) {
      int number = 0;
      CHECK(
          files::add_file("page " + std::to_string(page), [&] { return root.at("page-" + std::to_string(++number)); }));
      CHECK(number == page);
      CHECK(contents(root.at("page-" + std::to_string(page))) == "page " + std::to_string(page));
    }
    CHECK(contents(root.at("page-1")) == "theirs");
    CHECK_FALSE(files::replace_trace(root.at("page-2"), "x"));
    CHECK(files::replace_trace(root.at("page-1"), "ours"));
    CHECK(contents(root.at("page-1")) == "ours");
    CHECK(contents(root.at("victim")) == "precious");
    CHECK(support::files(root.path).size() == 5);
    CHECK_FALSE(files::add_file("x", [&] { return root.at("none/page"); }));
    no_unnamed_files = false;
  }
}
