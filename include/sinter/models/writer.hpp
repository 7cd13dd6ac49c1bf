// models/writer.hpp: writes texts with a language model: prompts of different lengths, caches that grow, sampled tokens.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "sampling.hpp"

namespace sinter::models {

using token_list = std::vector<std::int64_t>;

struct write_options {
  std::int64_t most = 256;  ///< tokens for each text
  sampling choose = {};
  key random = make_key(0);  ///< step i draws from fold_in(random, i)
  token_list ends = {};      ///< tokens that end a text; a text does not have them
  /// Is called with the text's number and each of its tokens. After false the text ends.
  std::function<bool(std::size_t, std::int64_t)> see = {};
};

namespace detail {

/// The texts under way. Its functions need no model.
class drafts {
 public:
  /// user_error for no prompt, an empty prompt, and for one with `most` tokens or more where `most` is not 0.
  SINTER_API drafts(const std::vector<token_list>& prompts, std::int64_t most, location at);
  /// The prompts as rows of equal length, padding in front.
  SINTER_API tensor<std::int64_t, 2> rows() const;
  SINTER_API tensor<std::int64_t, 1> starts() const;
  /// Takes a token for each text. False once all have ended.
  SINTER_API bool take(const token_list& next, const write_options& how);
  std::int64_t length() const { return length_; }

  std::vector<token_list> written;

 private:
  std::vector<token_list> prompts_;
  std::vector<char> ended_;
  std::int64_t length_ = 0;
};

/// A number of places that holds `count`, of few different ones.
SINTER_API std::int64_t capacity_for(std::int64_t count);

/// `all` with room for more places.
template <class T>
tensor<T, 4> with_room(const tensor<T, 4>& all, std::int64_t places) {
  const std::int64_t more = places - std::int64_t(all.size(2));
  return concat<2>(all, zeros<T>(std::array<std::int64_t, 4>{all.size(0), all.size(1), more, all.size(3)},
                                 sinter::detail::same_device(all, location::current())));
}

/// One step: the tokens that follow ids, and the longer caches.
template <class Model, class Caches>
struct writing_step {
  std::pair<tensor<std::int64_t, 2>, Caches> operator()(const Model& m, const tensor<std::int64_t, 2>& ids, Caches c,
                                                        const tensor<std::int64_t, 1>& starts, const key& k,
                                                        const sampling& how) const {
    auto [h, next] = hidden(m, ids, std::move(c), starts);
    const dim batch = h.size(0);
    const auto last = scores(m, std::remove_cvref_t<decltype(h)>(slice<1>(h, -1)));
    using T = typename std::remove_cvref_t<decltype(last)>::value_type;
    const tensor<T, 2> row = reshape(last, std::array<dim, 2>{batch, last.size(2)});
    return {expand_dims<1>(sampled(row, k, how)), std::move(next)};
  }
};

}  // namespace detail

/// Writes with a model of sinter::models that has caches: gpt2::model, llama::model, or a struct with functions of the same names,
/// `hidden(m, ids, caches, starts)`, `scores(m, h)`, `room(m, batch, places)` and `max_places(m)`. The caches grow by themselves. One
/// specialisation serves prompts of any length, and one more the steps behind them. Integer weights have one more for prompts of at most
/// 4 tokens together. A step writes into the caches in place.
template <class Model>
class writer {
 public:
  using caches = decltype(room(std::declval<const Model&>(), 1, 1));

  explicit writer(Model m) : model_(std::move(m)) {}

  /// Forgets all texts, and writes on behind each prompt. Returns the tokens behind each. A text ends before a token of
  /// `ends`, after `most` tokens, where `see` says so, or where the model has no more places. user_error for no prompts, an empty
  /// one, and one that the model has no places for.
  std::vector<token_list> write(const std::vector<token_list>& prompts, const write_options& how = {},
                                location here = location::current()) {
    const location at = here.in("models::writer::write");
    detail::check_sampling(how.choose.temperature, how.choose.top_k, how.choose.top_p, at);
    detail::drafts d(prompts, max_places(model_), at);
    forget();
    or_forget([&] {
      make_room(static_cast<std::int64_t>(prompts.size()), d.length());
      if (held_.empty()) fail("models::writer::write", "the model has no layers", at);
      starts_ = d.starts().to(held_[0].k.device());
    });
    run(d, how);
    return std::move(d.written);
  }
  /// Writes on behind all that one text has so far, and `more` tokens. After an error of a step all texts are
  /// forgotten. user_error unless the last prompts were one, and for more tokens than the model has places for.
  token_list write_on(const token_list& more, const write_options& how = {}, location here = location::current()) {
    const location at = here.in("models::writer::write_on");
    detail::check_sampling(how.choose.temperature, how.choose.top_k, how.choose.top_p, at);
    if (last_.empty()) return write({more}, how, at)[0];
    if (std::int64_t(starts_.size(0)) != 1)
      fail("models::writer::write_on", "the last prompts were several; write begins new texts", at);
    token_list all = last_;
    all.insert(all.end(), more.begin(), more.end());
    const std::int64_t most = max_places(model_);
    detail::drafts d({all}, most == 0 ? 0 : std::max<std::int64_t>(most - places_, 1), at);
    run(d, how);
    return std::move(d.written[0]);
  }

  /// The tokens of each text in the caches, padding among them.
  std::int64_t places() const { return places_; }
  const Model& model() const { return model_; }
  const caches& held() const { return held_; }
  std::size_t specialisations() const { return step_.specialisations(); }
  auto report() const { return step_.report(); }

 private:
  void run(detail::drafts& d, const write_options& how) {
    const std::int64_t most = max_places(model_);
    tensor<std::int64_t, 2> ids;
    or_forget([&] {
      const tensor<std::int64_t, 2> rows = d.rows();
      last_ = rows.to_vector();
      ids = rows.to(starts_.device());
    });
    for (std::int64_t i = 0; i < how.most; ++i) {
      const std::int64_t count = ids.size(1);
      if (most != 0 && places_ + count > most) break;
      or_forget([&] {
        make_room(std::int64_t(ids.size(0)), places_ + count);
        if (count > 1) mark_dynamic(ids, 1, {.min = 2});
        std::tie(ids, held_) = step_(model_, ids, std::move(held_), starts_, fold_in(how.random, i), how.choose);
        last_ = ids.to(device::cpu()).to_vector();
      });
      places_ += count;
      if (!d.take(last_, how)) break;
    }
  }
  void forget() {
    held_ = {};
    last_ = {};
    places_ = room_ = 0;
  }
  /// Calls f. After an exception no text is left half-done.
  template <class F>
  void or_forget(const F& f) {
    try {
      f();
    } catch (...) {
      forget();
      throw;
    }
  }
  /// Caches for so many places, whose number stays open.
  void make_room(std::int64_t batch, std::int64_t need) {
    if (need > room_) {
      room_ = detail::capacity_for(need);
      if (held_.empty()) held_ = room(model_, batch, room_);
      else
        for (auto& c : held_) c.k = detail::with_room(c.k, room_), c.v = detail::with_room(c.v, room_);
    }
    for (auto& c : held_) {
      mark_dynamic(c.k, 2, {.min = 2});
      mark_dynamic(c.v, 2, {.min = 2});
    }
  }

  using step = detail::writing_step<Model, caches>;
  Model model_;
  compiled<step> step_ = compile(step(), {.donate = {2}});
  caches held_;
  tensor<std::int64_t, 1> starts_;
  std::int64_t places_ = 0, room_ = 0;
  token_list last_;
};

}  // namespace sinter::models

#if !defined(SINTER_COMPILED)
#include "writer_rules.hpp"
#endif
