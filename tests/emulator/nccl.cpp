// tests/emulator/nccl.cpp: a stand-in for libnccl.so.2 between processes of one host: exchanges by files, in the stream's order.
// Calls answer "in progress" first, as those of communicators that do not block. Ranks may come late, differ or vanish:
//   SINTER_EMULATOR_NCCL_FOLDER     where the files are
//   SINTER_EMULATOR_NCCL_LATE       "1:200": exchanges of rank 1 begin 200 ms later
//   SINTER_EMULATOR_NCCL_ERROR      "1:5": the fifth call of rank 1's communicators has an error of the network
//   SINTER_EMULATOR_NCCL_BLOCK      "1:5": the fifth call of rank 1's communicators returns only when it is aborted
// Ranks whose exchanges differ wait until they abort, as those of NCCL do.
#include <sinter/base/float16.hpp>

#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "enqueue.hpp"
#include "memory.hpp"

namespace {

using clock_type = std::chrono::steady_clock;
constexpr int success = 0, system_error = 2, invalid_argument = 4, invalid_usage = 5, in_progress = 7;
constexpr int sizes[] = {1, 1, 4, 4, 8, 8, 2, 4, 8, 2};

std::string folder() { return emulator::setting("SINTER_EMULATOR_NCCL_FOLDER", "/tmp"); }

/// A file that others see complete or not at all. Streams of C++ would need the program's copy of its library.
void post(const std::string& name, const std::string& head, const void* data, std::size_t bytes) {
  const std::string path = folder() + "/" + name, early = path + ".part";
  std::FILE* const out = std::fopen(early.c_str(), "wb");
  if (out == nullptr) return;
  std::fwrite(head.data(), 1, head.size(), out);
  std::fputc('\n', out);
  std::fwrite(data, 1, bytes, out);
  std::fclose(out);
  std::rename(early.c_str(), path.c_str());
}
bool exists(const std::string& name) { return ::access((folder() + "/" + name).c_str(), R_OK) == 0; }
/// The first line, and the rest.
std::pair<std::string, std::string> read(const std::string& name) {
  std::string all;
  if (std::FILE* const in = std::fopen((folder() + "/" + name).c_str(), "rb")) {
    char part[4096];
    for (std::size_t n; (n = std::fread(part, 1, sizeof part, in)) != 0;) all.append(part, n);
    std::fclose(in);
  }
  const auto end = all.find('\n');
  return {all.substr(0, end), end == all.npos ? "" : all.substr(end + 1)};
}
void remove(const std::string& name) { ::unlink((folder() + "/" + name).c_str()); }

/// "RANK:NUMBER" of a variable for this rank, or -1.
long of_rank(const char* variable, int rank) {
  const std::string text = emulator::setting(variable);
  const auto colon = text.find(':');
  return colon != std::string::npos && std::atoi(text.c_str()) == rank ? std::atol(text.c_str() + colon + 1) : -1;
}

}  // namespace

struct ncclUniqueId {
  char bytes[128];
};

/// What of a communicator outlives its abort: operations of streams refer to it.
struct shared_state {
  std::string id;
  int ranks = 0, rank = 0;
  std::atomic<bool> aborted{false};
  std::uint64_t next = 0;                       ///< of its exchanges, when they are asked for
  std::map<int, std::uint64_t> sent, received;  ///< messages, by peer
  long calls = 0;
  int failed = success;

  std::string file(const std::string& what) const { return id + "." + what; }
};
struct communicator {
  std::shared_ptr<shared_state> state = std::make_shared<shared_state>();
  std::vector<std::function<void()>> asked;  ///< enqueued when the state is asked for
  int polls = 0;
  bool joined = false;
};

namespace {

thread_local int group_depth = 0;
thread_local communicator* group_of = nullptr;
struct message {
  bool sends;
  void* data;
  std::size_t bytes;
  int peer;
  void* stream;
};
thread_local std::vector<message> group;

template <class T>
void combine(void* to, const std::vector<std::string>& parts, std::size_t first, std::size_t count, int op) {
  T* const out = static_cast<T*>(to);
  for (std::size_t i = 0; i < count; ++i) {
    T all{};
    for (std::size_t r = 0; r < parts.size(); ++r) {
      T x{};
      std::memcpy(&x, parts[r].data() + (first + i) * sizeof(T), sizeof(T));
      if (r == 0) all = x;
      else all = op == 0 ? static_cast<T>(all + x) : op == 2 ? (all > x ? all : x) : (all < x ? all : x);
    }
    out[i] = all;
  }
}
/// Of 16 bits, added in f32.
template <class T>
void combine_16(void* to, const std::vector<std::string>& parts, std::size_t first, std::size_t count, int op) {
  T* const out = static_cast<T*>(to);
  for (std::size_t i = 0; i < count; ++i) {
    float all = 0;
    for (std::size_t r = 0; r < parts.size(); ++r) {
      T bits;
      std::memcpy(static_cast<void*>(&bits), parts[r].data() + (first + i) * sizeof(T), sizeof(T));
      const auto x = static_cast<float>(bits);
      all = r == 0 ? x : op == 0 ? all + x : op == 2 ? (all > x ? all : x) : (all < x ? all : x);
    }
    out[i] = T(all);
  }
}
void combine(int type, void* to, const std::vector<std::string>& parts, std::size_t first, std::size_t count, int op) {
  switch (type) {
    case 0:
      return combine<std::int8_t>(to, parts, first, count, op);
    case 1:
      return combine<std::uint8_t>(to, parts, first, count, op);
    case 2:
      return combine<std::int32_t>(to, parts, first, count, op);
    case 3:
      return combine<std::uint32_t>(to, parts, first, count, op);
    case 4:
      return combine<std::int64_t>(to, parts, first, count, op);
    case 5:
      return combine<std::uint64_t>(to, parts, first, count, op);
    case 7:
      return combine<float>(to, parts, first, count, op);
    case 8:
      return combine<double>(to, parts, first, count, op);
    case 6:
      return combine_16<sinter::f16>(to, parts, first, count, op);
    default:
      return combine_16<sinter::bf16>(to, parts, first, count, op);
  }
}

/// The operation's turn comes late on ranks that the test names.
std::function<bool()> delayed(int rank, std::function<bool()> ready) {
  const long late = of_rank("SINTER_EMULATOR_NCCL_LATE", rank);
  if (late < 0) return ready;
  const auto begun = std::make_shared<clock_type::time_point>();
  return [=] {
    if (*begun == clock_type::time_point()) *begun = clock_type::now();
    return clock_type::now() - *begun >= std::chrono::milliseconds(late) && ready();
  };
}

enum class kind { all_reduce, all_gather, reduce_scatter, broadcast };

/// All ranks post their operands, then read those of all.
int exchange(communicator* c, kind what, const void* in, void* out, std::size_t count, int type, int op, int root,
             void* stream) {
  if (c == nullptr || type < 0 || type > 9 || group_depth > 0) return invalid_argument;
  auto s = c->state;
  if (s->failed != success || !c->joined) return s->failed != success ? s->failed : invalid_usage;
  if (++s->calls == of_rank("SINTER_EMULATOR_NCCL_ERROR", s->rank)) return s->failed = system_error;
  if (s->calls == of_rank("SINTER_EMULATOR_NCCL_BLOCK", s->rank)) {
    while (!s->aborted) std::this_thread::sleep_for(std::chrono::milliseconds(5));
    return system_error;
  }
  const std::size_t item = static_cast<std::size_t>(sizes[type]), bytes = count * item,
                    given = what == kind::reduce_scatter ? bytes * static_cast<std::size_t>(s->ranks) : bytes;
  const std::uint64_t number = s->next++;
  const std::string text = "exchange " + std::to_string(static_cast<int>(what)) + " of " + std::to_string(count) + " " +
                           std::to_string(type) + " op " + std::to_string(op) + " root " + std::to_string(root);
  const auto name = [s](std::uint64_t n, int r) { return s->file(std::to_string(n) + "." + std::to_string(r)); };
  const auto parts = std::make_shared<std::vector<std::string>>();
  const auto told = std::make_shared<bool>(false), posted = std::make_shared<bool>(false);
  const auto ready = [=] {
    if (s->aborted) return true;
    if (!std::exchange(*posted, true)) post(name(number, s->rank), text, in, given);
    while (parts->size() < static_cast<std::size_t>(s->ranks)) {
      const int r = static_cast<int>(parts->size());
      if (!exists(name(number, r))) return false;
      auto [theirs, data] = read(name(number, r));
      if (theirs != text || data.size() != given) {
        if (!std::exchange(*told, true))
          std::fprintf(stderr, "[emulator] nccl: rank %d does \"%s\", rank %d \"%s\"; both wait\n", s->rank,
                       text.c_str(), r, theirs.c_str());
        return false;
      }
      parts->push_back(std::move(data));
    }
    return true;
  };
  const auto run = [=] {
    // What an abort leaves: half of the result.
    if (s->aborted) return void(std::memset(out, 0x7e, bytes / 2));
    // All ranks have ended the exchange before.
    if (number > 0) remove(name(number - 1, s->rank));
    const auto own = static_cast<std::size_t>(s->rank);
    if (what == kind::all_reduce) combine(type, out, *parts, 0, count, op);
    else if (what == kind::reduce_scatter) combine(type, out, *parts, own * count, count, op);
    else if (what == kind::broadcast) std::memcpy(out, (*parts)[static_cast<std::size_t>(root)].data(), bytes);
    else
      for (std::size_t r = 0; r < parts->size(); ++r)
        std::memcpy(static_cast<char*>(out) + r * bytes, (*parts)[r].data(), bytes);
    parts->clear();
  };
  c->asked.push_back([=] { emulator::enqueue_when_ready(stream, delayed(s->rank, ready), run); });
  return in_progress;
}

/// Messages of a group go out together, and the group ends when all have come.
void ask_group(communicator* c, const std::vector<message>& all) {
  auto s = c->state;
  struct transfer {
    message what;
    std::string name;
  };
  auto left = std::make_shared<std::vector<transfer>>();
  for (const auto& m : all) {
    auto& count = m.sends ? s->sent[m.peer] : s->received[m.peer];
    const int from = m.sends ? s->rank : m.peer, to = m.sends ? m.peer : s->rank;
    left->push_back(
        {m, s->file("m" + std::to_string(count++) + "." + std::to_string(from) + "." + std::to_string(to))});
  }
  const auto posted = std::make_shared<bool>(false);
  const auto ready = [=] {
    if (s->aborted) return true;
    if (!std::exchange(*posted, true))
      for (const auto& t : *left)
        if (t.what.sends) post(t.name, std::to_string(t.what.bytes), t.what.data, t.what.bytes);
    for (const auto& t : *left)
      if (!t.what.sends && (!exists(t.name) || read(t.name).first != std::to_string(t.what.bytes))) return false;
    return true;
  };
  const auto run = [=] {
    if (s->aborted) return;
    for (const auto& t : *left)
      if (!t.what.sends) {
        std::memcpy(t.what.data, read(t.name).second.data(), t.what.bytes);
        remove(t.name);
      }
  };
  void* const stream = all[0].stream;
  c->asked.push_back([=] { emulator::enqueue_when_ready(stream, delayed(s->rank, ready), run); });
}

int add_message(bool sends, void* data, std::size_t count, int type, int peer, communicator* c, void* stream) {
  if (c == nullptr || type < 0 || type > 9 || peer < 0 || peer >= c->state->ranks || group_depth == 0)
    return invalid_argument;
  if (c->state->failed != success || !c->joined) return invalid_usage;
  if (group_of != nullptr && group_of != c) return invalid_usage;
  group_of = c;
  group.push_back({sends, data, count * static_cast<std::size_t>(sizes[type]), peer, stream});
  return success;
}

}  // namespace

#define SINTER_EXPORT extern "C" __attribute__((visibility("default")))

SINTER_EXPORT int ncclGetVersion(int* version) { return *version = 22703, success; }
SINTER_EXPORT const char* ncclGetErrorString(int r) {
  return r == system_error       ? "unhandled system error"
         : r == invalid_usage    ? "invalid usage"
         : r == invalid_argument ? "invalid argument"
                                 : "no error";
}
SINTER_EXPORT int ncclGetUniqueId(ncclUniqueId* out) {
  std::random_device random;
  std::memset(out, 0, sizeof *out);
  std::snprintf(out->bytes, sizeof out->bytes, "sinter_nccl_%08x%08x", random(), random());
  return success;
}
SINTER_EXPORT int ncclCommInitRankConfig(communicator** out, int ranks, ncclUniqueId id, int rank, void* how) {
  struct config {
    std::size_t size;
    unsigned magic, version;
    int blocking;
  } const& c = *static_cast<const config*>(how);
  if (c.size < sizeof(config) || c.magic != 0xcafebeef || c.version < 21400 || c.blocking != 0) return invalid_argument;
  if (rank < 0 || rank >= ranks || std::memchr(id.bytes, 0, sizeof id.bytes) == nullptr) return invalid_argument;
  auto* const made = new communicator;
  made->state->id = id.bytes;
  made->state->ranks = ranks;
  made->state->rank = rank;
  *out = made;
  return in_progress;
}
SINTER_EXPORT int ncclCommGetAsyncError(communicator* c, int* state) {
  auto& s = *c->state;
  *state = s.failed;
  if (s.failed != success) return success;
  if (!c->joined) {
    const auto name = [&](int r) { return s.file("init." + std::to_string(r)); };
    if (c->polls++ == 0) post(name(s.rank), "", "", 0);
    *state = in_progress;
    for (int r = 0; r < s.ranks; ++r)
      if (!exists(name(r))) return success;
    c->joined = true;
    *state = success;
    return success;
  }
  // The first question finds the call still going on.
  if (!c->asked.empty() && c->polls++ % 2 == 0) return *state = in_progress, success;
  for (const auto& f : std::exchange(c->asked, {})) f();
  return success;
}
SINTER_EXPORT int ncclCommAbort(communicator* c) {
  c->state->aborted = true;
  delete c;
  return success;
}
SINTER_EXPORT int ncclGroupStart() { return ++group_depth, success; }
SINTER_EXPORT int ncclGroupEnd() {
  if (--group_depth > 0) return success;
  communicator* const c = std::exchange(group_of, nullptr);
  const auto all = std::exchange(group, {});
  if (c == nullptr) return success;
  ask_group(c, all);
  return in_progress;
}
SINTER_EXPORT int ncclSend(const void* data, std::size_t count, int type, int peer, communicator* c, void* stream) {
  return add_message(true, const_cast<void*>(data), count, type, peer, c, stream);
}
SINTER_EXPORT int ncclRecv(void* data, std::size_t count, int type, int peer, communicator* c, void* stream) {
  return add_message(false, data, count, type, peer, c, stream);
}
SINTER_EXPORT int ncclAllReduce(const void* in, void* out, std::size_t count, int type, int op, communicator* c,
                                void* stream) {
  return exchange(c, kind::all_reduce, in, out, count, type, op, 0, stream);
}
SINTER_EXPORT int ncclReduceScatter(const void* in, void* out, std::size_t count, int type, int op, communicator* c,
                                    void* stream) {
  return exchange(c, kind::reduce_scatter, in, out, count, type, op, 0, stream);
}
SINTER_EXPORT int ncclAllGather(const void* in, void* out, std::size_t count, int type, communicator* c, void* stream) {
  return exchange(c, kind::all_gather, in, out, count, type, 0, 0, stream);
}
SINTER_EXPORT int ncclBroadcast(const void* in, void* out, std::size_t count, int type, int root, communicator* c,
                                void* stream) {
  return exchange(c, kind::broadcast, in, out, count, type, 0, root, stream);
}
