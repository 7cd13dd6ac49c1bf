// models/writer_rules.hpp: the definitions for writer.hpp; compiled once.
#pragma once

#include <algorithm>
#include <string>
#include <vector>

#include "writer.hpp"

namespace sinter::models::detail {

SINTER_API drafts::drafts(const std::vector<token_list>& prompts, std::int64_t most, location at)
    : written(prompts.size()), prompts_(prompts), ended_(prompts.size()) {
  if (prompts.empty()) fail(at.op, "there are no prompts", at);
  for (std::size_t i = 0; i < prompts.size(); ++i) {
    const auto size = static_cast<std::int64_t>(prompts[i].size());
    if (size == 0) fail(at.op, "prompt " + std::to_string(i) + " has no tokens; give the model's first token", at);
    if (most != 0 && size >= most)
      fail(at.op,
           "prompt " + std::to_string(i) + " has " + std::to_string(size) + " tokens, and the model has places for " +
               std::to_string(most) + "; give fewer tokens",
           at);
    length_ = std::max(length_, size);
  }
}

SINTER_API tensor<std::int64_t, 2> drafts::rows() const {
  std::vector<std::int64_t> all;
  for (const token_list& p : prompts_) {
    all.resize(all.size() + static_cast<std::size_t>(length_) - p.size());
    all.insert(all.end(), p.begin(), p.end());
  }
  return from_span(all, static_cast<std::int64_t>(prompts_.size()), length_);
}

SINTER_API tensor<std::int64_t, 1> drafts::starts() const {
  std::vector<std::int64_t> all;
  for (const token_list& p : prompts_) all.push_back(length_ - static_cast<std::int64_t>(p.size()));
  return from_span(all);
}

SINTER_API bool drafts::take(const token_list& next, const write_options& how) {
  bool open = false;
  for (std::size_t i = 0; i < next.size(); ++i) {
    if (ended_[i]) continue;
    if (std::find(how.ends.begin(), how.ends.end(), next[i]) != how.ends.end()) {
      ended_[i] = 1;
      continue;
    }
    written[i].push_back(next[i]);
    if (how.see && !how.see(i, next[i])) ended_[i] = 1;
    open = open || !ended_[i];
  }
  return open;
}

SINTER_API std::int64_t capacity_for(std::int64_t count) {
  std::int64_t places = 64;
  while (places <= count) places *= 2;
  return places;
}

}  // namespace sinter::models::detail
