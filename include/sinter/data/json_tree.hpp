// data/json_tree.hpp: a JSON text as nodes of one array, for files whose parts refer to one another.
#pragma once

#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

#include "../io/json.hpp"

namespace sinter::data::detail {

enum class json_kind : std::uint8_t { null, boolean, number, text, object, array };

/// A value, with the number of its first child and of the next child of its parent; 0: none.
struct json_node {
  json_kind kind = json_kind::null;
  bool truth = false;
  double number = 0;
  std::uint32_t first = 0, next = 0, count = 0;
  std::size_t key = 0, key_size = 0, text = 0, text_size = 0;
};

/// Nodes and texts of a file. Node 0 is the root.
class json_tree : public io::detail::json_events {
 public:
  static constexpr std::size_t deepest = 64;

  /// Reads a text. Returns "", or its error.
  std::string read(std::string_view text) {
    if (text.empty()) return "is empty";
    if (text.size() > std::numeric_limits<std::uint32_t>::max()) return "is larger than 4 GiB";
    return io::detail::parse_json(text, *this);
  }

  const json_node& at(std::uint32_t i) const { return nodes_[i]; }
  std::string_view key_of(const json_node& n) const { return std::string_view(pool_).substr(n.key, n.key_size); }
  std::string_view text_of(const json_node& n) const { return std::string_view(pool_).substr(n.text, n.text_size); }
  const json_node* member(const json_node& n, std::string_view name) const {
    if (n.kind != json_kind::object) return nullptr;
    for (std::uint32_t i = n.first; i != 0; i = nodes_[i].next)
      if (key_of(nodes_[i]) == name) return &nodes_[i];
    return nullptr;
  }
  template <class F>
  void each(const json_node& n, const F& f) const {
    for (std::uint32_t i = n.first; i != 0; i = nodes_[i].next) f(nodes_[i]);
  }

  bool null() { return put(json_kind::null) != nullptr; }
  bool boolean(bool x) {
    put(json_kind::boolean)->truth = x;
    return true;
  }
  bool number_integer(number_integer_t x) { return number(static_cast<double>(x)); }
  bool number_unsigned(number_unsigned_t x) { return number(static_cast<double>(x)); }
  bool number_float(number_float_t x, const string_t&) { return number(x); }
  bool string(string_t& x) {
    json_node* const n = put(json_kind::text);
    n->text = pool_.size();
    n->text_size = x.size();
    pool_ += x;
    return true;
  }
  bool start_object(std::size_t) { return open(json_kind::object); }
  bool start_array(std::size_t) { return open(json_kind::array); }
  bool end_object() { return close(); }
  bool end_array() { return close(); }
  bool key(string_t& x) {
    key_ = pool_.size();
    key_size_ = x.size();
    pool_ += x;
    return true;
  }

 private:
  struct level {
    std::uint32_t node, last;
  };
  json_node* put(json_kind kind) {
    const auto place = static_cast<std::uint32_t>(nodes_.size());
    nodes_.push_back({});
    nodes_.back().kind = kind;
    if (!levels_.empty()) {
      level& in = levels_.back();
      (in.last == 0 ? nodes_[in.node].first : nodes_[in.last].next) = place;
      in.last = place;
      ++nodes_[in.node].count;
      nodes_.back().key = key_;
      nodes_.back().key_size = key_size_;
      key_size_ = 0;
    }
    return &nodes_.back();
  }
  bool number(double x) {
    put(json_kind::number)->number = x;
    return true;
  }
  bool open(json_kind kind) {
    if (levels_.size() == deepest) return no("more than " + std::to_string(deepest) + " levels");
    put(kind);
    levels_.push_back({static_cast<std::uint32_t>(nodes_.size() - 1), 0});
    return true;
  }
  bool close() {
    levels_.pop_back();
    return true;
  }

  std::vector<json_node> nodes_;
  std::vector<level> levels_;
  std::string pool_;
  std::size_t key_ = 0, key_size_ = 0;
};

}  // namespace sinter::data::detail
