// onnx/roles.hpp: roles of a file's tensors in the operators that read them: weights, running statistics, scales, masks,
// options.
#pragma once

#include <set>
#include <string_view>
#include <tuple>
#include <unordered_map>

#include "importer.hpp"

namespace sinter::onnx {

/// How operators read a tensor, directly or after moves of its elements.
enum role : unsigned {
  role_weight = 1,        ///< weight or bias of a product or a convolution
  role_statistic = 2,     ///< mean or variance of a normalisation in inference
  role_quantisation = 4,  ///< scale or zero point
  role_mask = 8,          ///< a mask of attention
  role_option = 16,       ///< a parameter of an operator's behaviour: bounds, scales, windows
  role_dequantised = 32,  ///< quantised elements that belong to a scale
  role_chosen = 64,       ///< added to the argument of a softmax, or a branch of Where: a weight, or a mask
  role_state = 256,       ///< the first state of a recurrence: zeros from the exporter, or a learned state
  role_factor = 128,      ///< a factor of a product by elements, or a subtrahend: a weight, or a mask
};

namespace detail_ {

/// Inputs of an operator that have a role.
struct operand_role {
  std::string_view op;
  unsigned inputs;  ///< bit k: input k
  role is;
};
inline constexpr operand_role operand_roles[] = {
    {"BatchNormalization", 0b11000, role_statistic},
    {"Sqrt", 0b1, role_statistic},
    {"QuantizeLinear", 0b110, role_quantisation},
    {"DequantizeLinear", 0b110, role_quantisation},
    {"DequantizeLinear", 0b1, role_dequantised},
    {"QLinearConv", 0b11110110, role_quantisation},
    {"QLinearMatMul", 0b11110110, role_quantisation},
    {"MatMulInteger", 0b1100, role_quantisation},
    {"ConvInteger", 0b1100, role_quantisation},
    {"Attention", 0b1000, role_mask},
    {"Where", 0b110, role_chosen},
    {"Mul", 0b11, role_factor},
    {"Sub", 0b11, role_factor},
    {"Clip", 0b110, role_option},
    {"Pad", 0b100, role_option},
    {"Resize", 0b110, role_option},
    {"Upsample", 0b10, role_option},
    {"Range", 0b111, role_option},
    {"OneHot", 0b110, role_option},
    {"Dropout", 0b110, role_option},
    {"NonMaxSuppression", 0b11100, role_option},
    {"MelWeightMatrix", 0b11111, role_option},
    {"STFT", 0b100, role_option},
    {"RotaryEmbedding", 0b1110, role_option},
    {"GroupQueryAttention", 0b110000000, role_option},
    {"MultiHeadAttention", 0b100000, role_mask},
    {"MatMulNBits", 0b1100, role_quantisation},
    {"GatherBlockQuantized", 0b1100, role_quantisation},
    {"QLinearAdd", ~0u, role_quantisation},
    {"QLinearMul", ~0u, role_quantisation},
    {"QLinearConcat", ~0u, role_quantisation},
    {"QLinearWhere", ~0u, role_quantisation},
    {"QLinearSigmoid", ~0u, role_quantisation},
    {"QLinearLeakyRelu", ~0u, role_quantisation},
    {"QLinearSoftmax", ~0u, role_quantisation},
    {"QLinearAveragePool", ~0u, role_quantisation},
    {"QLinearGlobalAveragePool", ~0u, role_quantisation},
    {"QGemm", ~0u, role_quantisation},
    {"QAttention", 0b11011000, role_quantisation},
    {"DynamicQuantizeMatMul", 0b1100, role_quantisation},
    {"MatMulIntegerToFloat", 0b111100, role_quantisation},
    {"FusedMatMul", 0b11, role_weight},
    {"FusedGemm", 0b111, role_weight},
    {"FusedConv", 0b110, role_weight},
    {"NhwcConv", 0b110, role_weight},
    {"MatMul", 0b11, role_weight},
    {"Gemm", 0b111, role_weight},
    {"Einsum", ~0u, role_weight},
    {"Conv", 0b110, role_weight},
    {"ConvTranspose", 0b110, role_weight},
    {"DeformConv", 0b1010, role_weight},
    {"CausalConvWithState", 0b110, role_weight},
    {"RNN", 0b1110, role_weight},
    {"GRU", 0b1110, role_weight},
    {"LSTM", 0b10001110, role_weight},
    {"RNN", 0b100000, role_state},
    {"GRU", 0b100000, role_state},
    {"LSTM", 0b1100000, role_state},
    {"CausalConvWithState", 0b1000, role_state},
    {"LinearAttention", 0b1000, role_state},
};
inline bool has_bit(unsigned bits, std::size_t k) { return bits >> std::min<std::size_t>(k, 31) & 1; }

/// Inputs whose elements are in an operator's results, moved or in another dtype.
inline unsigned carried_inputs(std::string_view op) {
  if (is_one_of(op, {"Cast", "CastLike", "QuantizeLinear", "DequantizeLinear", "Dropout"})) return 1;
  if (is_one_of(op, {"Where", "ScatterND", "ScatterElements"})) return 0;
  return moved_inputs(op);
}

/// Names of a graph with its inner graphs, or names of a function.
struct name_scope {
  std::unordered_map<std::string_view, std::vector<std::pair<const node_proto*, std::size_t>>> readers;
  std::unordered_map<std::string_view, const node_proto*> producers;
  std::set<std::string_view> constants;

  void add(const std::vector<node_proto>& nodes) {
    for (const node_proto& n : nodes) {
      for (std::size_t k = 0; k < n.inputs.size(); ++k)
        if (!n.inputs[k].empty()) readers[n.inputs[k]].emplace_back(&n, k);
      for (const std::string& y : n.outputs) producers.emplace(y, &n);
      if (n.op == "Constant" && !n.outputs.empty()) constants.insert(n.outputs[0]);
      for (const attribute_proto& a : n.attributes)
        if (a.g) add(*a.g);
    }
  }
  void add(const graph_proto& g) {
    for (const auto& t : g.initializers) constants.insert(t->name);
    add(g.nodes);
  }
  bool is_product(std::string_view name) const {
    const auto it = producers.find(name);
    return it != producers.end() &&
           is_one_of(it->second->op, {"MatMul", "Gemm", "Einsum", "Conv", "ConvTranspose", "DeformConv"});
  }
};

/// The roles of tensors of a model's graph.
class role_finder {
 public:
  explicit role_finder(const loaded& m) : m_(m) { top_.add(m.proto.graph); }

  unsigned roles_of(std::string_view name) {
    found_ = 0;
    seen_.clear();
    look({&top_, name, state::plain});
    while (!open_.empty()) {
      const place p = open_.back();
      open_.pop_back();
      if (const auto it = p.scope->readers.find(p.name); it != p.scope->readers.end())
        for (const auto& [n, k] : it->second) read(p, *n, k);
    }
    return found_;
  }

 private:
  /// The operators on the way from the tensor: moves only; a sum with any value; sums with constants only.
  enum class state { plain, sum, constant_sum };
  struct place {
    const name_scope* scope;
    std::string_view name;
    state now;
    bool operator<(const place& o) const { return std::tie(scope, name, now) < std::tie(o.scope, o.name, o.now); }
  };
  void look(const place& p) {
    if (!p.name.empty() && seen_.insert(p).second) open_.push_back(p);
  }
  void follow(const place& p, const node_proto& n, state now) {
    for (const std::string& y : n.outputs) look({p.scope, y, now});
  }

  void read(const place& p, const node_proto& n, std::size_t k) {
    const auto fn = m_.functions.find({n.domain, n.op});
    if (fn != m_.functions.end() && rows_of(n.domain, n.op).empty()) {
      if (k < fn->second->inputs.size()) look({scope_of(*fn->second), fn->second->inputs[k], p.now});
      return;
    }
    for (const attribute_proto& a : n.attributes)
      if (a.g && is_one_of(n.op, {"Loop", "Scan", "SequenceMap"}) && k < a.g->inputs.size())
        look({p.scope, a.g->inputs[k].name, p.now});
    if (p.now == state::plain)
      for (const operand_role& r : operand_roles)
        if (r.op == n.op && has_bit(r.inputs, k)) found_ |= r.is;
    if (has_bit(carried_inputs(n.op), k)) return follow(p, n, p.now);
    if (n.op == "Add") return read_by_add(p, n, k);
    if (p.now == state::plain) return;
    if (is_one_of(n.op, {"Softmax", "LogSoftmax"})) found_ |= role_chosen;
    if (p.now == state::constant_sum && is_one_of(n.op, {"Sqrt", "Pow"}) && k == 0) found_ |= role_statistic;
    if (is_one_of(n.op, {"Mul", "Div", "Where"})) follow(p, n, state::sum);
  }
  void read_by_add(const place& p, const node_proto& n, std::size_t k) {
    const std::string& other = n.inputs.size() == 2 ? n.inputs[1 - k] : n.inputs[k];
    if (p.now == state::plain && p.scope->is_product(other)) found_ |= role_weight;
    const bool constant = p.now != state::sum && p.scope->constants.count(other) != 0;
    follow(p, n, constant ? state::constant_sum : state::sum);
  }
  const name_scope* scope_of(const function_proto& f) {
    const auto [it, fresh] = functions_.try_emplace(&f);
    if (fresh) it->second.add(f.nodes);
    return &it->second;
  }

  const loaded& m_;
  name_scope top_;
  std::map<const function_proto*, name_scope> functions_;
  std::set<place> seen_;
  std::vector<place> open_;
  unsigned found_ = 0;
};

/// Whether all elements are 0 or at most -100, and some are at most -100. Masks that are added have such elements; Swin uses
/// -100.
inline bool is_added_mask(const io::array& a) {
  bool some = false;
  for (std::int64_t k = 0; k < a.numel(); ++k) {
    const double x = element_of(a, k).f;
    if (!(x == 0 || x <= -100)) return false;
    some = some || x != 0;
  }
  return some;
}
/// Whether all elements are 0 or 1, and both occur. False for a vector, which may be a scale of channels.
inline bool is_factor_mask(const io::array& a) {
  bool zero = false, one = false;
  if (a.extents.size() < 2) return false;
  for (std::int64_t k = 0; k < a.numel(); ++k) {
    const double x = element_of(a, k).f;
    if (x != 0 && x != 1) return false;
    (x == 0 ? zero : one) = true;
  }
  return zero && one;
}

inline bool is_zero(const io::array& a) {
  for (std::int64_t k = 0; k < a.numel(); ++k)
    if (element_of(a, k).f != 0) return false;
  return true;
}

/// Whether a floating tensor with these roles is trained. A constant of a node is trained only as the weight of a product.
inline bool is_parameter(unsigned roles, const dynamic_tensor& x, bool of_node) {
  if (x.rank() == 0) return false;
  if (roles & (role_statistic | role_quantisation | role_mask | role_option)) return false;
  if ((roles & role_dequantised) && size_of(x.type()) == 1) return false;
  if (of_node && !(roles & role_weight)) return false;
  if (!(roles & (role_chosen | role_factor | role_state))) return true;
  const io::array a = x.to_array(place_of_nodes());
  return !((roles & role_chosen) && is_added_mask(a)) && !((roles & role_factor) && is_factor_mask(a)) &&
         !((roles & role_state) && is_zero(a));
}

}  // namespace detail_
}  // namespace sinter::onnx
