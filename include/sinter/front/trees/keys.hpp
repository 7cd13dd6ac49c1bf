// front/trees/keys.hpp: keys of random numbers as one tensor.
#pragma once

#include "../functions/random.hpp"
#include "stacked.hpp"

namespace sinter {

/// The keys of split(k, n) as one stack, with the same bits. vmap, scan and unstack give each lane, step or item its key. n
/// may be an extent. user_error for a negative number.
template <std::same_as<key> Key>
stacked<Key> split_stacked(const Key& k, dim n, location here = location::current()) {
  const location at = here.in("split_stacked");
  if (n < 0) fail("split_stacked", "the number of keys must not be negative; it is " + n.text(), at);
  const detail::index_leaf<std::uint64_t, dims(1)> each({n}, 0);
  const tensor<std::uint64_t, 1> states = detail::evaluate(philox(k.state, add(each, detail::first_child, at), at), at);
  return stacked<Key>{std::in_place, states};
}

}  // namespace sinter
