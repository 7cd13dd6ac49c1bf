// Cases of com.microsoft's operators: random elements, odd sizes, masks and past lengths.
#pragma once

#include "recorded_cases.hpp"

namespace onnx_test {

inline const std::string microsoft = "com.microsoft";
inline filled absent() { return {"", 0, {}, {}}; }
using cases = std::vector<recorded_case>;
using attributes = std::vector<message>;

inline void put_fused(cases& all) {
  const filled x = reals("x", {2, 3, 5}, 1), skip = reals("s", {2, 3, 5}, 2), g = reals("g", {5}, 3),
               b = reals("b", {5}, 4), bias = reals("c", {5}, 5);
  const auto put = [&](const char* name, const char* op, std::vector<filled> in, attributes a = {},
                       std::vector<int> results = {f32}) {
    all.push_back({name, op, microsoft, std::move(in), std::move(a), std::move(results)});
  };
  put("skip_norm", "SkipLayerNormalization", {x, skip, g, b, bias}, {attribute_float("epsilon", 1e-3f)},
      {f32, 0, 0, f32});
  put("skip_norm_plain", "SkipLayerNormalization", {x, skip, g});
  put("skip_norm_rows", "SkipLayerNormalization", {x, reals("s", {3, 5}, 2), g, b});
  put("skip_rms", "SkipSimplifiedLayerNormalization", {x, skip, g}, {attribute_float("epsilon", 1e-4f)},
      {f32, 0, 0, f32});
  put("skip_rms_bias", "SkipSimplifiedLayerNormalization", {x, skip, g, bias}, {}, {f32});
  all.push_back(
      {"rms", "SimplifiedLayerNormalization", "", {x, g}, {attribute("axis", -1), attribute_float("epsilon", 1e-4f)}});
  put("embed", "EmbedLayerNormalization",
      {whole("i", {2, 3}, 1, 0, 6, i32), whole("t", {2, 3}, 2, 0, 1, i32), reals("w", {7, 5}, 3), reals("p", {4, 5}, 4),
       reals("q", {2, 5}, 5), g, b, given("m", {2, 3}, {1, 1, 0, 1, 1, 1}, i32)},
      {attribute_float("epsilon", 1e-5f)}, {f32, i32});
  put("embed_positions", "EmbedLayerNormalization",
      {whole("i", {2, 3}, 1, 0, 6, i32), absent(), reals("w", {7, 5}, 3), reals("p", {4, 5}, 4), absent(), g, b,
       absent(), whole("at", {2, 3}, 7, 0, 3, i32)},
      {attribute_float("epsilon", 1e-5f)}, {f32, i32, f32});
  put("bias_gelu", "BiasGelu", {x, bias});
  put("fast_gelu", "FastGelu", {x});
  put("fast_gelu_bias", "FastGelu", {x, bias});
  put("quick_gelu", "QuickGelu", {x}, {attribute_float("alpha", 1.3f)});
  put("gelu", "Gelu", {x});
  put("matmul_ab", "FusedMatMul", {reals("a", {2, 5, 3}, 1), reals("b", {2, 7, 5}, 2)},
      {attribute("transA", 1), attribute("transB", 1), attribute_float("alpha", 0.25f)});
  put("matmul_batch", "FusedMatMul", {reals("a", {3, 2, 5}, 1), reals("b", {5, 2, 7}, 2)},
      {attribute("transBatchA", 1), attribute("transBatchB", 1)});
  put("matmul_both", "FusedMatMul", {reals("a", {5, 2, 3}, 1), reals("b", {2, 5, 7}, 2)},
      {attribute("transBatchA", 1), attribute("transA", 1)});
  put("gemm_leaky", "FusedGemm", {reals("a", {3, 5}, 1), reals("b", {7, 5}, 2), reals("c", {7}, 3)},
      {attribute("transB", 1), attribute_text("activation", "LeakyRelu"), attribute_float("activation_alpha", 0.3f)});
  const filled image = reals("x", {1, 4, 5, 3}, 1), weights = reals("w", {6, 2, 3, 2}, 2),
               of_channel = reals("b", {6}, 3);
  put("conv_relu", "FusedConv", {image, weights, of_channel},
      {attribute("group", 2), attribute_list("pads", {1, 0, 1, 1}), attribute_text("activation", "Relu")});
  put("conv_sum", "FusedConv", {image, weights, of_channel, reals("z", {1, 6, 5, 3}, 4)},
      {attribute("group", 2), attribute_list("pads", {1, 0, 1, 1}), attribute_text("activation", "Relu")});
  put("conv_clip", "FusedConv", {image, weights, of_channel},
      {attribute("group", 2), attribute_text("activation", "Clip"),
       attribute_floats("activation_params", {-0.5f, 0.75f})});
  put("conv_hard", "FusedConv", {image, weights},
      {attribute("group", 2), attribute_text("activation", "HardSigmoid"),
       attribute_floats("activation_params", {0.1f, 0.4f})});
}

inline void put_packed_attention(cases& all) {
  const filled x = reals("x", {2, 3, 5}, 1), w = reals("w", {5, 24}, 2), b = reals("b", {24}, 3);
  const auto put = [&](const char* name, std::vector<filled> in, attributes a = {}, std::vector<int> results = {f32}) {
    a.push_back(attribute("num_heads", 2));
    all.push_back({name, "Attention", microsoft, std::move(in), std::move(a), std::move(results)});
  };
  put("attention", {x, w, b});
  put("attention_causal", {x, w, b}, {attribute("unidirectional", 1), attribute_float("scale", 0.7f)});
  put("attention_mask", {x, w, b, given("m", {2, 3}, {1, 1, 0, 0, 1, 1}, i32)});
  put("attention_masked", {x, w, b, given("m", {2, 3}, {0, 0, 0, 1, 0, 1}, i32)},
      {attribute_float("mask_filter_value", -2)});
  put("attention_ends", {x, w, b, given("m", {2}, {2, 3}, i32)});
  put("attention_starts", {x, w, b, given("m", {4}, {3, 2, 1, 0}, i32)});
  put("attention_plane", {x, w, b, whole("m", {2, 3, 3}, 3, 0, 1, i32)});
  put("attention_past", {x, w, b, absent(), reals("p", {2, 2, 2, 4, 4}, 5)}, {attribute("unidirectional", 1)},
      {f32, f32});
  put("attention_past_mask", {x, w, b, whole("m", {2, 7}, 3, 0, 1, i32), reals("p", {2, 2, 2, 4, 4}, 5)}, {},
      {f32, f32});
  put("attention_bias", {x, w, b, absent(), absent(), reals("r", {1, 2, 3, 3}, 6)});
  put("attention_sizes", {x, reals("w", {5, 22}, 2), reals("b", {22}, 3)},
      {attribute_list("qkv_hidden_sizes", {8, 8, 6})});
  put("attention_one", {reals("x", {1, 1, 1}, 1), reals("w", {1, 6}, 2), reals("b", {6}, 3)});
}

inline void put_heads(cases& all) {
  const filled q = reals("q", {2, 3, 8}, 1), k = reals("k", {2, 5, 8}, 2), v = reals("v", {2, 5, 6}, 3);
  const auto put = [&](const char* name, std::vector<filled> in, attributes a = {}, std::vector<int> results = {f32}) {
    a.push_back(attribute("num_heads", 2));
    all.push_back({name, "MultiHeadAttention", microsoft, std::move(in), std::move(a), std::move(results)});
  };
  put("heads", {q, k, v});
  put("heads_bias", {q, k, v, reals("b", {22}, 4)}, {attribute_float("scale", 0.3f)});
  put("heads_lengths", {q, k, v, absent(), given("m", {2}, {4, 2}, i32)});
  put("heads_mask", {q, k, v, absent(), whole("m", {2, 5}, 5, 0, 1, i32)});
  put("heads_plane", {q, k, v, absent(), whole("m", {2, 3, 5}, 6, 0, 1, i32)});
  put("heads_scores", {q, k, v, absent(), absent(), reals("r", {2, 1, 3, 5}, 7)});
  put("heads_past",
      {q, reals("k", {2, 3, 8}, 2), reals("v", {2, 3, 8}, 3), absent(), absent(), absent(),
       reals("pk", {2, 2, 4, 4}, 8), reals("pv", {2, 2, 4, 4}, 9)},
      {attribute("unidirectional", 1)}, {f32, f32, f32});
  put("heads_cross", {q, reals("k", {2, 2, 5, 4}, 2), reals("v", {2, 2, 5, 4}, 3)});
}

/// x (lanes, heads, places, size) with zeros from a place of a lane on: what is behind a lane's end is not defined.
inline filled behind(filled x, std::size_t lane, std::size_t place) {
  const auto heads = static_cast<std::size_t>(x.extents[1]), places = static_cast<std::size_t>(x.extents[2]),
             size = static_cast<std::size_t>(x.extents[3]);
  for (std::size_t h = 0; h < heads; ++h)
    for (std::size_t k = place * size; k < places * size; ++k) x.elements[(lane * heads + h) * places * size + k] = 0;
  return x;
}
inline void put_groups(cases& all) {
  const auto put = [&](const char* name, std::vector<filled> in, attributes a = {}) {
    const std::string_view caches = "groups_turned groups_ragged groups_room groups_packed";
    const int shown = caches.find(name) != caches.npos ? 1 : -1;
    a.push_back(attribute("num_heads", 4));
    a.push_back(attribute("kv_num_heads", 2));
    all.push_back(
        {name, "GroupQueryAttention", microsoft, std::move(in), std::move(a), {f32, shown * f32, shown * f32}});
  };
  const auto last = [](double a, double b) { return given("l", {2}, {a, b}, i32); };
  const auto total = [](double n) { return given("t", {1}, {n}, i32); };
  const filled q = reals("q", {2, 3, 64}, 1), k = reals("k", {2, 3, 32}, 2), v = reals("v", {2, 3, 32}, 3);
  const filled pk = reals("pk", {2, 2, 4, 16}, 4), pv = reals("pv", {2, 2, 4, 16}, 5);
  const filled co = reals("co", {16, 8}, 6), si = reals("si", {16, 8}, 7);
  const filled none_k = reals("pk", {2, 2, 0, 16}, 4), none_v = reals("pv", {2, 2, 0, 16}, 5);
  put("groups_prompt", {q, k, v, none_k, none_v, last(2, 2), total(3)});
  put("groups_turned", {q, k, v, none_k, none_v, last(2, 2), total(3), co, si}, {attribute("do_rotary", 1)});
  put("groups_pairs", {q, k, v, none_k, none_v, last(2, 2), total(3), co, si},
      {attribute("do_rotary", 1), attribute("rotary_interleaved", 1), attribute_float("scale", 0.4f)});
  const filled q1 = reals("q", {2, 1, 64}, 1), k1 = reals("k", {2, 1, 32}, 2), v1 = reals("v", {2, 1, 32}, 3);
  put("groups_step", {q1, k1, v1, pk, pv, last(4, 4), total(5), co, si}, {attribute("do_rotary", 1)});
  put("groups_ragged", {q1, k1, v1, behind(pk, 1, 2), behind(pv, 1, 2), last(4, 2), total(5), co, si},
      {attribute("do_rotary", 1)});
  const auto wide = [&](const char* name, double seed) {
    return behind(behind(reals(name, {2, 2, 9, 16}, seed), 0, 4), 1, 2);
  };
  put("groups_room", {q1, k1, v1, wide("pk", 4), wide("pv", 5), last(4, 2), total(5)});
  put("groups_cap", {q1, k1, v1, pk, pv, last(4, 4), total(5)}, {attribute_float("softcap", 1.5f)});
  put("groups_window", {q1, k1, v1, pk, pv, last(4, 4), total(5)}, {attribute("local_window_size", 2)});
  put("groups_prompt_window", {q, k, v, none_k, none_v, last(2, 2), total(3)}, {attribute("local_window_size", 1)});
  put("groups_smooth", {q1, k1, v1, pk, pv, last(4, 4), total(5)}, {attribute("smooth_softmax", 1)});
  put("groups_sink",
      {q1, k1, v1, pk, pv, last(4, 4), total(5), absent(), absent(), absent(), absent(), reals("h", {4}, 8)});
  put("groups_bias",
      {q1, k1, v1, pk, pv, last(4, 4), total(5), absent(), absent(), absent(), reals("r", {1, 4, 1, 5}, 9)});
  put("groups_bias_cap",
      {q1, k1, v1, pk, pv, last(4, 4), total(5), absent(), absent(), absent(), reals("r", {2, 1, 1, 5}, 9)},
      {attribute_float("softcap", 1.5f)});
  put("groups_packed", {reals("q", {2, 3, 128}, 1), absent(), absent(), none_k, none_v, last(2, 2), total(3), co, si},
      {attribute("do_rotary", 1)});
  put("groups_places", {q1, k1, v1, pk, pv, last(4, 4), total(5), co, si, given("at", {2, 1}, {7, 2}, i64)},
      {attribute("do_rotary", 1)});
  // A second part of a prompt, for one lane.
  put("groups_more",
      {reals("q", {1, 3, 64}, 1), reals("k", {1, 3, 32}, 2), reals("v", {1, 3, 32}, 3), reals("pk", {1, 2, 4, 16}, 4),
       reals("pv", {1, 2, 4, 16}, 5), given("l", {1}, {6}, i32), total(7), co, si},
      {attribute("do_rotary", 1)});
}

inline void put_turns(cases& all) {
  const auto put = [&](const char* name, std::vector<filled> in, attributes a = {}) {
    all.push_back({name, "RotaryEmbedding", microsoft, std::move(in), std::move(a)});
  };
  const filled co = reals("co", {9, 3}, 6), si = reals("si", {9, 3}, 7);
  put("turned_from", {reals("x", {2, 5, 12}, 1), given("at", {1}, {3}, i64), co, si});
  put("turned_at", {reals("x", {2, 3, 12}, 1), whole("at", {2, 3}, 2, 0, 8, i64), co, si},
      {attribute("interleaved", 1)});
  put("turned_heads", {reals("x", {2, 2, 3, 6}, 1), whole("at", {2, 3}, 2, 0, 8, i64), co, si});
  put("turned_part", {reals("x", {2, 3, 20}, 1), whole("at", {2, 3}, 2, 0, 8, i64), co, si},
      {attribute("rotary_embedding_dim", 6), attribute("num_heads", 2)});
}

inline void put_bits(cases& all) {
  const auto put = [&](const char* name, std::vector<filled> in, std::int64_t n, std::int64_t k, std::int64_t bits,
                       std::int64_t block) {
    all.push_back({name,
                   "MatMulNBits",
                   microsoft,
                   std::move(in),
                   {attribute("N", n), attribute("K", k), attribute("bits", bits), attribute("block_size", block)}});
    all.back().tolerance = 2e-4;
  };
  const auto bytes = [](const char* name, std::vector<std::int64_t> e, double seed) {
    return fixed(whole(name, std::move(e), seed, 0, 255, u8));
  };
  const auto scales = [](std::int64_t n, std::int64_t blocks) { return fixed(reals("s", {n * blocks}, 3, 0.1)); };
  put("bits4", {reals("a", {3, 32}, 1), bytes("b", {5, 2, 8}, 2), scales(5, 2)}, 5, 32, 4, 16);
  put("bits4_zeros", {reals("a", {2, 3, 80}, 1), bytes("b", {5, 3, 16}, 2), scales(5, 3), bytes("z", {5 * 2}, 4)}, 5,
      80, 4, 32);
  put("bits4_odd",
      {reals("a", {1, 37}, 1), bytes("b", {3, 3, 8}, 2), scales(3, 3), bytes("z", {3 * 2}, 4), absent(),
       reals("c", {3}, 5)},
      3, 37, 4, 16);
  put("bits4_real_zeros",
      {reals("a", {3, 32}, 1), bytes("b", {5, 2, 8}, 2), scales(5, 2), fixed(reals("z", {5, 2}, 4, 9))}, 5, 32, 4, 16);
  put("bits8", {reals("a", {3, 40}, 1), bytes("b", {5, 3, 16}, 2), scales(5, 3), bytes("z", {15}, 4)}, 5, 40, 8, 16);
  put("bits2", {reals("a", {3, 32}, 1), bytes("b", {5, 2, 4}, 2), scales(5, 2)}, 5, 32, 2, 16);
  const auto rows = [&](const char* name, std::vector<filled> in, attributes a) {
    all.push_back({name, "GatherBlockQuantized", microsoft, std::move(in), std::move(a)});
  };
  const filled at = given("i", {2, 2}, {6, 0, 3, 1}, i64);
  const attributes of{attribute("block_size", 16), attribute("bits", 4), attribute("gather_axis", 0),
                      attribute("quantize_axis", 1)};
  rows("rows4", {bytes("d", {7, 16}, 1), at, fixed(reals("s", {7, 2}, 2))}, of);
  rows("rows4_zeros", {bytes("d", {7, 16}, 1), at, fixed(reals("s", {7, 2}, 2)), bytes("z", {7, 1}, 3)}, of);
  rows("rows4_typed",
       {fixed({"d", 21, {7, 32}, whole("d", {7, 16}, 1, 0, 255, u8).elements}), at, fixed(reals("s", {7, 2}, 2)),
        fixed({"z", 21, {7, 2}, whole("z", {7}, 3, 0, 255, u8).elements})},
       of);
  rows("rows4_signed",
       {fixed({"d", 22, {7, 32}, whole("d", {7, 16}, 1, 0, 255, u8).elements}), at, fixed(reals("s", {7, 2}, 2))}, of);
}

inline void put_quantised_pairs(cases& all) {
  const auto put = [&](const char* name, const char* op, std::vector<filled> in, attributes a = {}, int type = u8) {
    all.push_back({name, op, microsoft, std::move(in), std::move(a), {type}});
    all.back().tolerance = type == f32 ? 1e-4 : 1.01;
  };
  const auto scale = [](const char* name, double v) { return fixed(given(name, {}, {v})); };
  const auto zero = [](const char* name, double v, int type = u8) { return fixed(given(name, {}, {v}, type)); };
  const filled a = whole("a", {2, 3, 5}, 1, 0, 255, u8), b = whole("b", {3, 5}, 2, 0, 255, u8), sa = scale("sa", 0.05),
               za = zero("za", 120), sb = scale("sb", 0.03), zb = zero("zb", 7), sy = scale("sy", 0.08),
               zy = zero("zy", 99);
  put("q_add", "QLinearAdd", {a, sa, za, b, sb, zb, sy, zy});
  put("q_mul", "QLinearMul", {a, sa, za, b, sb, zb, sy, zy});
  put("q_mul_signed", "QLinearMul",
      {whole("a", {7}, 1, -128, 127, i8), sa, zero("za", -3, i8), whole("b", {7}, 2, -128, 127, i8), sb,
       zero("zb", 5, i8), sy, zero("zy", 0, i8)},
      {}, i8);
  put("q_sigmoid", "QLinearSigmoid", {a, sa, za, scale("sy", 1.0 / 256), zero("zy", 0)});
  put("q_leaky", "QLinearLeakyRelu", {a, sa, za, sy, zy}, {attribute_float("alpha", 0.2f)});
  put("q_softmax", "QLinearSoftmax", {a, sa, za, scale("sy", 1.0 / 256), zero("zy", 0)},
      {attribute("axis", -1), attribute("opset", 13)});
  put("q_concat", "QLinearConcat", {sy, zy, a, sa, za, whole("b", {2, 1, 5}, 2, 0, 255, u8), sb, zb},
      {attribute("axis", 1)});
  put("q_where", "QLinearWhere",
      {given("k", {3, 5}, {1, 0, 1, 1, 0, 0, 0, 1, 1, 0, 1, 1, 1, 0, 0}, b8), a, sa, za, b, sb, zb, sy, zy});
  const filled image = whole("x", {1, 3, 4, 5}, 1, 0, 255, u8);
  put("q_mean", "QLinearGlobalAveragePool", {image, sa, za, sy, zy});
  put("q_mean_last", "QLinearGlobalAveragePool", {image, sa, za, sy, zy}, {attribute("channels_last", 1)});
  put("q_pool", "QLinearAveragePool", {image, sa, za, sy, zy},
      {attribute_list("kernel_shape", {3, 2}), attribute_list("pads", {1, 0, 1, 0})});
  const filled m = whole("a", {3, 5}, 1, 0, 255, u8), w = whole("b", {5, 7}, 2, 0, 255, u8);
  put("q_gemm", "QGemm",
      {m, sa, za, fixed(whole("b", {7, 5}, 2, -128, 127, i8)), sb, zero("zb", 0, i8),
       fixed(whole("c", {7}, 3, -900, 900, i32)), sy, zy},
      {attribute("transB", 1)});
  put("q_gemm_real", "QGemm", {m, sa, za, fixed(w), sb, zb}, {attribute_float("alpha", 0.5f)}, f32);
  put("q_range", "DynamicQuantizeMatMul",
      {reals("a", {3, 5}, 1), fixed(w), fixed(reals("sb", {7}, 4, 0.1)), fixed(whole("zb", {7}, 5, 0, 255, u8)),
       fixed(reals("c", {7}, 6))},
      {}, f32);
  all.back().tolerance = 2e-3;
  put("q_to_real", "MatMulIntegerToFloat",
      {m, w, sa, fixed(reals("sb", {7}, 4, 0.1)), za, fixed(whole("zb", {7}, 5, 0, 255, u8)),
       fixed(reals("c", {7}, 6))},
      {}, f32);
  put("q_attention", "QAttention",
      {whole("x", {2, 3, 5}, 1, 0, 255, u8), fixed(whole("w", {5, 24}, 2, -128, 127, i8)), fixed(reals("b", {24}, 3)),
       scale("sx", 0.01), scale("sw", 0.01), given("m", {2, 3}, {1, 1, 0, 1, 1, 1}, i32), zero("zx", 130),
       zero("zw", 0, i8)},
      {attribute("num_heads", 2)}, f32);
  put("q_attention_past", "QAttention",
      {whole("x", {2, 3, 5}, 1, 0, 255, u8), fixed(whole("w", {5, 24}, 2, -128, 127, i8)), fixed(reals("b", {24}, 3)),
       scale("sx", 0.01), scale("sw", 0.01), absent(), zero("zx", 130), zero("zw", 0, i8),
       reals("p", {2, 2, 2, 4, 4}, 5)},
      {attribute("num_heads", 2), attribute("unidirectional", 1)}, f32);
  all.back().results = {f32, f32};
  put("q_16", "QuantizeLinear", {reals("x", {3, 5}, 1, 900), scale("s", 0.02), zero("z", 17, 5)}, {}, 5);
  put("q_back", "DequantizeLinear", {whole("x", {3, 5}, 1, -30000, 30000, 5), scale("s", 0.02), zero("z", 17, 5)}, {},
      f32);
  all.back().tolerance = 1e-3;
}

inline const cases& microsoft_cases() {
  static const cases all = [] {
    cases list;
    put_fused(list);
    put_packed_attention(list);
    put_heads(list);
    put_groups(list);
    put_turns(list);
    put_bits(list);
    put_quantised_pairs(list);
    return list;
  }();
  return all;
}

}  // namespace onnx_test
