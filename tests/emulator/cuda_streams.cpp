// tests/emulator/cuda_streams.cpp: streams, events and graphs of the emulated driver.
#include <algorithm>
#include <utility>

#include "call.hpp"

using namespace emulator;

namespace {

struct kernel_node {
  function* entry;
  unsigned grid[3], block[3], shared;
  void** parameters;
};
struct memset_node {
  unsigned long long to;
  std::size_t pitch;
  unsigned value, element;
  std::size_t width, height;
};

struct copy_place {
  std::size_t x, y, z, level;
  unsigned memory_type;
  const void* host;
  unsigned long long at;
  void *array, *reserved;
  std::size_t pitch, height;
};
struct copy_node {
  copy_place from, to;
  std::size_t width, height, depth;
};
struct conditional_node {
  int type, reserved[3];
  unsigned long long handle;
  int kind;
  unsigned size;
  graph** bodies;
  context* in;
  long long rest[26];
};

struct edge {
  unsigned char from_port, to_port, type, reserved[5];
};

int add_node(graph::node** out, graph* g, graph::node* const* before, std::size_t count, operation o) {
  auto n = std::make_unique<graph::node>();
  n->work = std::move(o);
  n->owner = g;
  n->index = g->nodes.size();
  for (std::size_t i = 0; i < count; ++i) n->before.push_back(before[i]->index);
  *out = n.get();
  g->nodes.push_back(std::move(n));
  return success;
}

operation* node_of(executable* e, graph::node* n) {
  const auto found = e->index.find(n);
  return found == e->index.end() ? nullptr : found->second;
}

operation copy_node_of(const copy_node& p) {
  operation o;
  o.what = operation::kind::copy;
  o.to = p.to.at;
  o.from = p.from.at;
  o.bytes = p.width;
  return o;
}
bool is_plain(const copy_node& p) {
  const auto plain = [](const copy_place& x) { return x.memory_type == 2 && x.x + x.y + x.z + x.level == 0; };
  return plain(p.from) && plain(p.to) && p.width > 0 && p.height == 1 && p.depth == 1;
}

/// True while conditional nodes are not there: before CUDA 12.3, or as the test wants it.
bool without_conditions() {
  return number("SINTER_EMULATOR_DRIVER", 13000) < 12030 || setting("SINTER_EMULATOR_CONDITIONS") == "none";
}

bool same_shape(const std::vector<operation>& a, const graph& b) {
  if (a.size() != b.nodes.size()) return false;
  for (std::size_t i = 0; i < a.size(); ++i)
    if (a[i].what != b.nodes[i]->work.what) return false;
  return true;
}

std::vector<operation> work_of(const graph& g) {
  std::vector<operation> out;
  for (const auto& n : g.nodes) out.push_back(n->work);
  return out;
}

/// An order that the nodes' dependencies allow: that of their addition, or, `reverse`d, the latest that may run first.
std::vector<std::size_t> order_of(const graph& g, bool reverse) {
  std::vector<std::size_t> out;
  std::vector<bool> ran(g.nodes.size());
  while (out.size() < g.nodes.size()) {
    std::size_t chosen = g.nodes.size();
    for (std::size_t i = 0; i < g.nodes.size(); ++i) {
      if (ran[i]) continue;
      const auto& before = g.nodes[i]->before;
      const bool ready = std::all_of(before.begin(), before.end(), [&](std::size_t b) { return ran[b]; });
      if (ready && (reverse || chosen == g.nodes.size())) chosen = i;
    }
    ran[chosen] = true;
    out.push_back(chosen);
  }
  return out;
}

/// The nodes of a graph as they will run, those of bodies too; false where a body has what is not allowed there.
bool prepare(executable& e, const graph& g, std::vector<operation>& work, bool reverse) {
  work = work_of(g);
  for (const auto& n : g.nodes) {
    operation& o = work[n->index];
    e.index[n.get()] = &o;
    if (&g != g.root && !n->early.empty()) return false;
    if (&g != g.root && setting("SINTER_EMULATOR_CONDITIONS") == "no products" && o.what == operation::kind::child)
      return false;
    if (o.what == operation::kind::fill && !all().reachable(o.to, o.span())) return false;
    if (o.what == operation::kind::copy && !(all().reachable(o.to, o.bytes) && all().reachable(o.from, o.bytes)))
      return false;
    if (!n->body) continue;
    if (!prepare(e, *n->body, o.inside, reverse)) return false;
    o.order = order_of(*n->body, reverse);
  }
  return true;
}

/// Per place in the order: how many places before it a node may be begun, when all but early edges let it.
std::vector<std::size_t> ahead_of(const graph& g, const std::vector<std::size_t>& order) {
  std::vector<std::size_t> place(order.size()), out(order.size());
  for (std::size_t p = 0; p < order.size(); ++p) place[order[p]] = p;
  for (std::size_t p = 0; p < order.size(); ++p) {
    const graph::node& n = *g.nodes[order[p]];
    if (n.before.empty()) continue;
    const std::size_t last = *std::max_element(n.before.begin(), n.before.end(),
                                               [&](std::size_t a, std::size_t b) { return place[a] < place[b]; });
    if (std::count(n.early.begin(), n.early.end(), last) != 0) out[p] = p - place[last];
  }
  return out;
}

}  // namespace

#pragma GCC visibility push(default)
extern "C" {

int cuStreamCreate(stream** out, unsigned) {
  call c;
  if (c.problem != success) return c.problem;
  *out = new stream;
  (*out)->device = current->device;
  c.w.streams.insert(*out);
  return success;
}
int cuCtxGetStreamPriorityRange(int* least, int* most) { return *least = 0, *most = -5, success; }
int cuStreamCreateWithPriority(stream** out, unsigned flags, int priority) {
  if (priority < -5 || priority > 0) return invalid_value;
  return cuStreamCreate(out, flags);
}
int cuStreamSynchronize(stream* s) {
  call c;
  if (c.problem != success) return c.problem;
  c.w.run_until(*s, s->asked);
  return c.w.lost;
}
int cuStreamQuery(stream* s) {
  call c;
  if (c.problem != success) return c.problem;
  const bool done = s->done == s->asked;
  // Asking makes progress, as time does.
  if (!done) c.w.run_until(*s, s->done + 1, false);
  return done ? success : not_ready;
}
int cuStreamWaitEvent(stream* s, event* e, unsigned) {
  call c;
  if (c.problem != success) return c.problem;
  if (e->where == nullptr) return success;
  operation o;
  o.what = operation::kind::wait;
  o.other = e->where;
  o.until = e->at;
  c.w.enqueue(*s, std::move(o));
  return success;
}
int cuStreamBeginCapture_v2(stream* s, int) {
  call c;
  if (c.problem != success) return c.problem;
  return s->capture = new graph, success;
}
int cuStreamIsCapturing(stream* s, int* status) {
  call c;
  return *status = s != nullptr && s->capture != nullptr ? 1 : 0, c.problem;
}
int cuStreamEndCapture(stream* s, graph** out) {
  call c;
  return *out = std::exchange(s->capture, nullptr), success;
}

int cuEventCreate(event** out, unsigned) { return *out = new event, success; }
int cuEventDestroy_v2(event* e) { return delete e, success; }
int cuEventRecord(event* e, stream* s) {
  call c;
  if (c.problem != success) return c.problem;
  operation o;
  o.call = [time = e->time] { *time = now(); };
  c.w.enqueue(*s, std::move(o));
  e->where = s;
  e->at = s->asked;
  return success;
}
int cuEventQuery(event* e) {
  call c;
  if (c.problem != success) return c.problem;
  if (e->where == nullptr || e->where->done >= e->at) return success;
  c.w.run_until(*e->where, e->where->done + 1, false);
  return not_ready;
}
int cuEventSynchronize(event* e) {
  call c;
  if (c.problem != success) return c.problem;
  if (e->where != nullptr) c.w.run_until(*e->where, e->at);
  return c.w.lost;
}
int cuEventElapsedTime(float* out, event* start, event* end) {
  return *out = static_cast<float>(*end->time - *start->time), success;
}

int cuGraphCreate(graph** out, unsigned) { return *out = new graph, success; }
int cuGraphDestroy(graph* g) { return delete g, success; }
int cuGraphConditionalHandleCreate(unsigned long long* out, graph* g, context*, unsigned begins, unsigned flags) {
  call c;
  if (c.problem != success) return c.problem;
  if (without_conditions()) return not_supported;
  if (g->root != g) return invalid_value;
  static unsigned long long counter = 1ull << 40;
  c.w.conditions[*out = ++counter] = {g, begins, 0, flags == 1, false};
  return success;
}
int cuGraphAddNode_v2(graph::node** out, graph* g, graph::node* const* before, const edge* edges, std::size_t count,
                      conditional_node* p) {
  call c;
  if (c.problem != success) return c.problem;
  if (without_conditions()) return not_supported;
  const auto found = c.w.conditions.find(p->handle);
  if (p->type != 13 || p->size != 1 || p->kind < 0 || p->kind > 1 || p->in == nullptr || edges != nullptr ||
      found == c.w.conditions.end() || found->second.root != g->root || found->second.is_used)
    return invalid_value;
  found->second.is_used = true;
  operation o;
  o.what = operation::kind::conditional;
  o.condition = p->handle;
  o.repeats = p->kind == 1;
  const int r = add_node(out, g, before, count, std::move(o));
  (*out)->body = std::make_unique<graph>();
  (*out)->body->root = g->root;
  (*out)->body->handed_out = (*out)->body.get();
  p->bodies = &(*out)->body->handed_out;
  return r;
}
int cuGraphAddKernelNode_v2(graph::node** out, graph* g, graph::node* const* before, std::size_t count,
                            const kernel_node* p) {
  call c;
  if (c.problem != success) return c.problem;
  const uint3 grid{p->grid[0], p->grid[1], p->grid[2]}, block{p->block[0], p->block[1], p->block[2]};
  if (const int r = check_launch(*p->entry, grid, block, p->shared); r != success) return r;
  return add_node(out, g, before, count, launch_of(p->entry, grid, block, p->shared, p->parameters));
}
int cuGraphAddMemsetNode(graph::node** out, graph* g, graph::node* const* before, std::size_t count,
                         const memset_node* p, context*) {
  if (p->height > 1 && p->pitch < p->width * p->element) return invalid_value;
  return add_node(out, g, before, count, fill_of(p->to, p->value, p->width * p->element, p->height, p->pitch));
}
int cuGraphAddMemcpyNode(graph::node** out, graph* g, graph::node* const* before, std::size_t count, const copy_node* p,
                         context*) {
  if (!is_plain(*p)) return invalid_value;
  return add_node(out, g, before, count, copy_node_of(*p));
}
int cuGraphAddChildGraphNode(graph::node** out, graph* g, graph::node* const* before, std::size_t count, graph* child) {
  operation o;
  o.what = operation::kind::child;
  o.inside = work_of(*child);
  return add_node(out, g, before, count, std::move(o));
}
int cuGraphAddDependencies_v2(graph*, graph::node* const* from, graph::node* const* to, const edge* edges,
                              std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) {
    const bool early = edges != nullptr && edges[i].type == 1;
    const auto is_kernel = [](const graph::node* n) { return n->work.what == operation::kind::launch; };
    if (early && (edges[i].from_port != 1 || !is_kernel(from[i]) || !is_kernel(to[i]))) return invalid_value;
    to[i]->before.push_back(from[i]->index);
    if (early) to[i]->early.push_back(from[i]->index);
  }
  return success;
}
int cuGraphInstantiateWithFlags(executable** out, graph* g, unsigned long long) {
  auto made = std::make_unique<executable>();
  call c;
  if (memory_here().used() >= memory_here().total()) return out_of_memory;
  // What a kernel is given is not looked at, what is filled or copied is.
  made->root = g;
  if (!prepare(*made, *g, made->work, c.w.reverse)) return invalid_value;
  for (const auto& n : g->nodes)
    if (!n->early.empty() && number("SINTER_EMULATOR_CAPABILITY", 90) < 90) return not_supported;
  made->order = order_of(*g, c.w.reverse);
  made->ahead = ahead_of(*g, made->order);
  return *out = made.release(), success;
}
int cuGraphExecKernelNodeSetParams_v2(executable* e, graph::node* n, const kernel_node* p) {
  call c;
  operation* const o = node_of(e, n);
  if (o == nullptr || o->what != operation::kind::launch || o->entry != p->entry) return invalid_value;
  o->parameters = packed(*p->entry, p->parameters);
  o->grid = {p->grid[0], p->grid[1], p->grid[2]};
  return success;
}
int cuGraphExecMemsetNodeSetParams(executable* e, graph::node* n, const memset_node* p, context*) {
  call c;
  operation* const o = node_of(e, n);
  if (o == nullptr || o->what != operation::kind::fill || o->bytes != p->width * p->element || o->rows != p->height)
    return invalid_value;
  return *o = fill_of(p->to, p->value, p->width * p->element, p->height, p->pitch), success;
}
int cuGraphExecMemcpyNodeSetParams(executable* e, graph::node* n, const copy_node* p, context*) {
  call c;
  operation* const o = node_of(e, n);
  if (o == nullptr || o->what != operation::kind::copy || !is_plain(*p) || o->bytes != p->width) return invalid_value;
  return *o = copy_node_of(*p), success;
}
int cuGraphExecChildGraphNodeSetParams(executable* e, graph::node* n, graph* child) {
  call c;
  operation* const o = node_of(e, n);
  if (o == nullptr || o->what != operation::kind::child) return invalid_value;
  if (!same_shape(o->inside, *child)) return update_failure;
  return o->inside = work_of(*child), success;
}
int cuGraphLaunch(executable* e, stream* s) {
  call c;
  if (c.problem != success) return c.problem;
  operation begin;
  begin.call = [&w = c.w, root = e->root] {
    for (auto& [handle, one] : w.conditions)
      if (one.root == root && one.begins_anew) one.value = one.begins;
  };
  if (std::any_of(e->work.begin(), e->work.end(), [](const auto& o) { return o.what == operation::kind::conditional; }))
    c.w.enqueue(*s, std::move(begin));
  for (std::size_t p = 0; p < e->order.size(); ++p) {
    operation o = e->work[e->order[p]];
    o.ahead = e->ahead[p];
    c.w.enqueue(*s, std::move(o));
  }
  return success;
}
int cuGraphExecDestroy(executable* e) { return delete e, success; }

/// For the stand-in of NCCL: runs `run(data)` in the stream's order, once `ready(data)` says so.
int sinterEnqueueWhenReady(stream* s, int (*ready)(void*), void (*run)(void*), void* data, void (*release)(void*)) {
  call c;
  const std::shared_ptr<void> kept(data, release);
  if (c.problem != success) return c.problem;
  operation o;
  o.ready = [=] { return ready(kept.get()) != 0; };
  o.call = [=] { run(kept.get()); };
  c.w.enqueue(*s, std::move(o));
  return success;
}
/// For the stand-ins of other libraries: runs `run(data)` in the stream's order, as often as a graph is launched.
int sinterEnqueue(stream* s, void (*run)(void*), void* data, void (*release)(void*)) {
  call c;
  const std::shared_ptr<void> kept(data, release);
  if (c.problem != success) return c.problem;
  operation o;
  o.call = [=] { run(kept.get()); };
  c.w.enqueue(*s, std::move(o));
  return success;
}

}  // extern "C"
#pragma GCC visibility pop
