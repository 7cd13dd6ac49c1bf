// onnx/ml_rows.hpp: ai.onnx.ml's operators of columns: scalers, encoders, maps between labels, linear models.
#pragma once

#include "packed_rows.hpp"

namespace sinter::onnx::rows {

inline std::int64_t place_of_text(const loaded& m, const std::string& text) {
  const auto it = std::lower_bound(m.texts.begin(), m.texts.end(), text);
  return it != m.texts.end() && *it == text ? it - m.texts.begin() : -1;
}

/// Keys or values of a map, as the file has them.
struct listed {
  dtype type = dtype::i64;
  bool text = false;
  std::vector<std::int64_t> ints;
  std::vector<double> floats;

  std::size_t count() const { return is_float(type) ? floats.size() : ints.size(); }
  node as_node(call& c) const {
    host_values h{type, {dim(static_cast<std::int64_t>(count()))}, {}, {}};
    h.floats.assign(floats.begin(), floats.end());
    for (const auto v : ints) h.ints.push_back(number_of_file(v));
    return c.im.value(known_item(std::move(h)));
  }
  void append(const listed& x) {
    if (x.type != type || x.text != text) wire::fail_file("its default has another dtype than its values");
    ints.insert(ints.end(), x.ints.begin(), x.ints.end());
    floats.insert(floats.end(), x.floats.begin(), x.floats.end());
  }
};
inline listed list_of_texts(call& c, const std::vector<std::string>& texts) {
  listed out;
  out.text = true;
  for (const auto& t : texts) out.ints.push_back(place_of_text(c.im.model(), t));
  return out;
}
inline listed list_of_floats(const std::vector<double>& v, dtype type = dtype::f32) {
  listed out;
  out.type = type;
  out.floats = v;
  return out;
}
inline listed list_of_ints(const std::vector<std::int64_t>& v, dtype type = dtype::i64) {
  listed out;
  out.type = type;
  out.ints = v;
  return out;
}
/// The elements of a tensor in an attribute.
inline listed list_of_tensor(call& c, const tensor_proto& t) {
  if (t.type == text_format) return list_of_texts(c, t.texts);
  const host_values h = host_of(c.im.elements(item_of_tensor(t, c.im.model())));
  listed out;
  out.type = is_bool(h.type) ? dtype::i64 : h.type;
  out.floats.assign(h.floats.begin(), h.floats.end());
  for (const dim& d : h.ints) out.ints.push_back(d.bits);
  return out;
}
/// A list in one of the attributes NAME_floats, NAME_int64s, NAME_strings and NAME_tensor; nothing without one.
inline std::optional<listed> list_named(call& c, const std::string& name) {
  if (const auto* a = c.attribute(name + "_tensor"); a && a->t) return list_of_tensor(c, *a->t);
  if (const auto* a = c.attribute(name + "_strings")) return list_of_texts(c, a->strings);
  for (const char* kind : {"_int64s", "_ints"})
    if (const auto* a = c.attribute(name + kind)) return list_of_ints(a->ints);
  if (const auto* a = c.attribute(name + "_floats")) return list_of_floats({a->floats.begin(), a->floats.end()});
  return std::nullopt;
}
inline void give_listed(call& c, std::size_t k, const node& v, bool text) {
  c.give(k, traced_item(v, text ? text_format : 0));
}
/// The elements of an attribute of floats, as a row in a dtype. One element stands for all columns.
inline node row_of_floats(call& c, const char* name, dtype type) {
  const auto* a = c.attribute(name);
  if (!a || a->floats.empty()) c.refuse(std::string("its ") + name + " are not given");
  const node row = to_type(list_of_floats({a->floats.begin(), a->floats.end()}).as_node(c), type);
  return number_or_list(row);
}
/// Input k in a float dtype: integers in f32.
inline node floating(call& c, std::size_t k) {
  const node x = c.x(k);
  return is_float(x.type()) ? wide(x) : to_type(x, dtype::f32);
}
/// Input 0 as rows of columns. A vector is one row.
inline node rows_of_columns(call& c) {
  const node x = floating(c, 0);
  if (x.rank() == 1) return unsqueezed(x, {0});
  if (x.rank() != 2) c.refuse("its input is " + text_of(extents_of(x)) + ", which is not rows of columns");
  return x;
}

inline void scaler(call& c) {
  const node x = floating(c, 0);
  c.give(
      to_type(times(minus(x, row_of_floats(c, "offset", x.type())), row_of_floats(c, "scale", x.type())), dtype::f32));
}
inline void normalizer(call& c) {
  const node x = floating(c, 0);
  const std::string norm = c.s("norm", "MAX");
  const std::vector<int> last{x.rank() - 1};
  node size;
  if (norm == "MAX") size = reduced(op::maximum, x, last, true);
  else if (norm == "L1") size = reduced(op::add, pointwise(op::abs, x), last, true);
  else if (norm == "L2") size = to_type(ir::sqrt(squares_over(x, last, true)), x.type());
  else c.refuse("its norm '" + norm + "' is none of MAX, L1 and L2");
  c.give(to_type(choose(ir::eq(size, 0.0), x, over(x, size)), dtype::f32));
}
inline void binarizer(call& c) {
  const node x = c.x(0);
  c.give(to_type(ir::gt(wide(x), c.f("threshold", 0)), x.type()));
}
inline void imputer(call& c) {
  const node x = c.x(0);
  const bool real = is_float(x.type());
  const auto values = list_named(c, "imputed_value");
  if (!values || values->count() == 0) c.refuse("its imputed values are not given");
  const double lost = c.f("replaced_value_float", 0);
  const node gone = !real ? pointwise(op::eq, x, to_type(integer(c.i("replaced_value_int64", 0)), x.type()))
                    : std::isnan(lost) ? pointwise(op::isnan, x)
                                       : ir::eq(x, lost);
  c.give(choose(gone, to_type(number_or_list(values->as_node(c)), x.type()), x));
}
inline void array_features(call& c) {
  const node x = c.x(0), at = to_type(c.x(1), dtype::i64);
  const node y = taken(x, reshape_to(at, {product_of(extents_of(at))}), x.rank() - 1);
  give_listed(c, 0, x.rank() == 1 ? unsqueezed(y, {0}) : y, c.in[0].format == text_format);
}
inline void feature_vectorizer(call& c) {
  const auto widths = c.list("inputdimensions");
  std::vector<node> parts;
  for (std::size_t k = 0; k < c.in.size(); ++k) {
    node x = to_type(c.x(k), dtype::f32);
    if (x.rank() == 1) x = unsqueezed(x, {0});
    if (x.rank() != 2) c.refuse("its input " + std::to_string(k) + " is " + text_of(extents_of(x)));
    const dim has = size_of_axis(x, 1), wanted = k < widths.size() ? dim(widths[k]) : has;
    if (wanted < has) x = sliced(x, 1, 0, wanted);
    if (has < wanted) x = padded(x, {dim(0), dim(0)}, {dim(0), wanted - has}, 0);
    parts.push_back(x);
  }
  c.give(joined(parts, 1));
}

/// Whether each element equals each key, (…, keys). NaN equals NaN.
inline node matches(call& c, const node& x, const listed& keys) {
  const dtype type = is_float(keys.type) ? keys.type : dtype::i64;
  const node all = to_type(keys.as_node(c), type), each = unsqueezed(to_type(x, type), {x.rank()});
  const node same = pointwise(op::eq, each, all);
  if (!is_float(type)) return same;
  return pointwise(op::bit_or, same, pointwise(op::bit_and, pointwise(op::isnan, each), pointwise(op::isnan, all)));
}
/// values[k] for the first key k that an element equals; else the default, which is the last value.
inline void give_mapped(call& c, const listed& keys, const listed& values) {
  const node x = c.x(0);
  if ((c.in[0].format == text_format) != keys.text)
    c.refuse(std::string("its keys are ") + (keys.text ? "text" : "numbers") + ", and its input is not");
  const auto n = static_cast<std::int64_t>(keys.count());
  if (values.count() != keys.count() + 1) c.refuse("it has another number of keys than of values");
  const node hit = matches(c, x, keys);
  const node place = choose(hit, iota(dtype::i64, extents_of(hit), x.rank()), integer(n));
  const node first = n == 0 ? constant(dtype::i64, 0, extents_of(x)) : reduced(op::minimum, place, {x.rank()}, false);
  give_listed(c, 0, taken(values.as_node(c), first, 0), values.text);
}
/// The value of a map for unknown keys, for values of a kind.
inline listed default_value(call& c, const listed& values) {
  if (const auto* a = c.attribute("default_tensor"); a && a->t && c.version >= 4) return list_of_tensor(c, *a->t);
  if (values.text) return list_of_texts(c, {c.s("default_string", "_Unused")});
  if (is_float(values.type)) return list_of_floats({c.f("default_float", -0.0)}, values.type);
  return list_of_ints({c.i("default_int64", -1)}, values.type);
}
inline void label_encoder(call& c) {
  auto keys = list_named(c, "keys"), values = list_named(c, "values");
  if (const auto* a = c.attribute("classes_strings"); a && !keys) {
    const listed texts = list_of_texts(c, a->strings);
    std::vector<std::int64_t> places;
    for (std::size_t k = 0; k < texts.count(); ++k) places.push_back(static_cast<std::int64_t>(k));
    const bool text = c.in.at(0).format == text_format;
    keys = text ? texts : list_of_ints(places);
    values = text ? list_of_ints(places) : texts;
  }
  if (!keys || !values) c.refuse("its keys or values are not given");
  values->append(default_value(c, *values));
  give_mapped(c, *keys, *values);
}
inline void category_mapper(call& c) {
  auto texts = list_named(c, "cats"), places = std::optional<listed>();
  if (const auto* a = c.attribute("cats_int64s")) places = list_of_ints(a->ints);
  if (!texts || !texts->text || !places) c.refuse("its cats_strings or cats_int64s are not given");
  const bool text = c.in.at(0).format == text_format;
  listed values = text ? *places : *texts;
  values.append(default_value(c, values));
  give_mapped(c, text ? *texts : *places, values);
}
inline void one_hot_encoder(call& c) {
  const auto keys = list_named(c, "cats");
  if (!keys || keys->text != (c.in.at(0).format == text_format)) c.refuse("its categories are not of its input's kind");
  c.give(to_type(matches(c, c.x(0), *keys), dtype::f32));
}

/// Scores after the transformation that an attribute names.
inline node transformed_scores(call& c, const node& x, const std::string& how) {
  if (how == "NONE" || how.empty()) return x;
  if (how == "LOGISTIC") return sigmoid_of(x);
  if (how == "SOFTMAX") return softmax_of(x, x.rank() - 1);
  if (how == "PROBIT") return pointwise(op::erfinv, x * 2.0 - 1.0) * 1.4142135623730951;
  if (how != "SOFTMAX_ZERO") c.refuse("its post_transform is '" + how + "'");
  const int last = x.rank() - 1;
  const node top = ir::stop_gradient(reduced(op::maximum, x, {last}, true));
  const node zero = pointwise(op::le, pointwise(op::abs, x), constant(x.type(), 1e-7));
  const node e = choose(zero, times(x, ir::exp(-top)), ir::exp(minus(x, top)));
  return over(e, reduced(op::add, e, {last}, true));
}
/// The labels of a classifier, in the order of its scores.
inline listed labels_of(call& c) {
  const auto all = list_named(c, "classlabels");
  if (!all || all->count() == 0) c.refuse("its class labels are not given");
  return *all;
}
/// The label at each place.
inline void give_labels(call& c, const listed& labels, const node& places) {
  give_listed(c, 0, taken(labels.as_node(c), places, 0), labels.text);
}
inline node place_of_largest(const node& scores) {
  ir::attributes a;
  a.combiner = op::maximum;
  a.ints = {scores.rank() - 1};
  return ir::push(op::arg_reduce, {scores}, std::move(a));
}
/// Scores of two classes from those (rows, 1) of the second, after their transformation.
inline node both_scores(call& c, const node& score, const std::string& how, bool about_half) {
  if (how == "LOGISTIC") return joined({sigmoid_of(-score), sigmoid_of(score)}, 1);
  const node s = how == "PROBIT" ? transformed_scores(c, score, how) : score;
  return joined({about_half ? 1.0 - s : -s, s}, 1);
}
/// x (rows, columns) by coefficients (outputs, columns), plus intercepts.
inline node linear_scores(call& c, std::int64_t outputs) {
  const node x = rows_of_columns(c);
  const dim columns = size_of_axis(x, 1);
  const node w = row_of_floats(c, "coefficients", x.type());
  if (outputs < 1 || product_of(extents_of(w)) != columns * outputs)
    c.refuse("its coefficients are not " + std::to_string(outputs) + " rows of " + columns.text());
  const node y = product(x, transposed(reshape_to(w, {dim(outputs), columns})));
  return c.has_attribute("intercepts") ? plus(y, row_of_floats(c, "intercepts", x.type())) : y;
}
inline void linear_regressor(call& c) {
  const node y = linear_scores(c, c.i("targets", 1));
  c.give(to_type(transformed_scores(c, y, c.s("post_transform", "NONE")), dtype::f32));
}
inline void linear_classifier(call& c) {
  const listed labels = labels_of(c);
  const auto* a = c.attribute("intercepts");
  const auto outputs = a ? static_cast<std::int64_t>(a->floats.size()) : static_cast<std::int64_t>(labels.count());
  const std::string how = c.s("post_transform", "NONE");
  const node scores = linear_scores(c, outputs);
  if (outputs == 1 && labels.count() == 2) {
    const node second = reshape_to(ir::gt(scores, 0.0), {size_of_axis(scores, 0)});
    give_labels(c, labels, to_type(second, dtype::i64));
    return c.give(1, to_type(both_scores(c, scores, how, true), dtype::f32));
  }
  give_labels(c, labels, place_of_largest(scores));
  c.give(1, to_type(transformed_scores(c, scores, how), dtype::f32));
}
/// The columns of the maps that ZipMap would make, in the order of its labels.
inline void zip_map(call& c) { c.give(0, c.given(0)); }

inline const row columns[] = {
    {"ArrayFeatureExtractor", "ai.onnx.ml", 1, array_features, "take"},
    {"Binarizer", "ai.onnx.ml", 1, binarizer, "greater"},
    {"CategoryMapper", "ai.onnx.ml", 1, category_mapper, "comparisons, min, take"},
    {"FeatureVectorizer", "ai.onnx.ml", 1, feature_vectorizer, "concat"},
    {"Imputer", "ai.onnx.ml", 1, imputer, "select"},
    {"LabelEncoder", "ai.onnx.ml", 1, label_encoder, "comparisons, min, take"},
    {"LinearClassifier", "ai.onnx.ml", 1, linear_classifier, "matmul, argmax"},
    {"LinearRegressor", "ai.onnx.ml", 1, linear_regressor, "matmul"},
    {"Normalizer", "ai.onnx.ml", 1, normalizer, "norm, div"},
    {"OneHotEncoder", "ai.onnx.ml", 1, one_hot_encoder, "comparisons"},
    {"Scaler", "ai.onnx.ml", 1, scaler, "sub, mul"},
    {"ZipMap", "ai.onnx.ml", 1, zip_map, "the columns of its maps, as a tensor"},
};

}  // namespace sinter::onnx::rows
