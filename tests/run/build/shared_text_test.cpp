#include <doctest/doctest.h>

#include <string>

#include <sinter/run/build/shared_text.hpp>

using namespace sinter;
using engine::run::parts_of, engine::run::shared_text;

namespace {

std::string with(const std::string& head, const std::string& body) {
  return "// " + head +
         "\n\nnamespace sx {\nlong prelude\n}  // namespace sx\n#line 1\nnamespace sx {\nmore\n}  // namespace sx\n" +
         body;
}

}  // namespace

TEST_CASE("texts in parts") {
  for (const std::string& text :
       {std::string(), std::string("x"), with("a", "body\n"), std::string("\nnamespace sx {"),
        std::string("}  // namespace sx\n}  // namespace sx\n"), std::string("namespace sx {\n}  // namespace sx")}) {
    CAPTURE(text);
    const shared_text kept(text);
    CHECK(kept.str() == text);
    CHECK(kept.size() == text.size());
    CHECK(kept == text);
    CHECK(!(kept == text + " "));
    CHECK(!(kept == std::string(text.size() + 1, ' ')));
    std::string all;
    for (const auto part : parts_of(text)) {
      CHECK(!part.empty());
      all += part;
    }
    CHECK(all == text);
  }
}

TEST_CASE("parts that several texts have are in memory once, as long as one has them") {
  const shared_text a(with("a", "one\n"));
  std::weak_ptr<const std::string> prelude, body;
  {
    const shared_text b(with("b", "two\n"));
    REQUIRE(a.parts().size() == 5);
    REQUIRE(b.parts().size() == 5);
    for (const std::size_t shared : {1, 2, 3}) CHECK(a.parts()[shared] == b.parts()[shared]);
    CHECK(*b.parts()[1] == "namespace sx {\nlong prelude\n}  // namespace sx\n");
    CHECK(a.parts()[0] != b.parts()[0]);
    CHECK(!(a == with("b", "two\n")));
    prelude = b.parts()[1];
    body = b.parts()[4];
  }
  CHECK(!prelude.expired());
  CHECK(body.expired());
}
