// front/resolve.hpp: the device that a factory works for, and memory there.
#pragma once

#include "evaluate.hpp"

namespace sinter::detail {

SINTER_API device resolve(const char* op, const target& where, location at) {
  const auto& t = engine::current();
  if (!t) return where.given ? *where.given : engine::default_device();
  if (where.given && !t->where) t->where = where.given;
  if (where.given && !(*where.given == *t->where))
    fail(op,
         "the traced function runs on " + t->where->text() + ", where its arguments are, not on " +
             where.given->text() + "; leave the device out",
         at);
  return t->where ? *t->where : engine::default_device();
}

SINTER_API storage copied(const void* from, device from_where, device to, std::size_t bytes) {
  storage memory = engine::allocate(bytes, to);
  if (bytes) engine::copy(memory.data(), to, from, from_where, bytes);
  return memory;
}

}  // namespace sinter::detail
