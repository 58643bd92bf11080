#include "unfused/stage.h"

#ifdef ATTENIO_HAVE_ONEDNN

namespace attenio::unfused {
namespace {

using dnnl::memory;

memory::data_type Type(DType type) { return type == DType::kBF16 ? memory::data_type::bf16 : memory::data_type::f32; }

memory::desc Matrix(int64_t rows, int64_t columns, DType type, int64_t row_stride, int64_t column_stride = 1) {
  return memory::desc({rows, columns}, Type(type), memory::dims{row_stride, column_stride});
}

// Scores are scaled, then masked, while they are still in registers.
dnnl::primitive_attr ScoreAttributes(const StageShape& s, const memory::desc& mask) {
  dnnl::primitive_attr attributes;
  attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  dnnl::post_ops post;
#if DNNL_VERSION_MAJOR < 3
  attributes.set_output_scales(0, {s.scale});
#else
  post.append_eltwise(dnnl::algorithm::eltwise_linear, s.scale, 0.0f);
#endif
  if (s.mask_row) post.append_binary(dnnl::algorithm::binary_add, mask);
  attributes.set_post_ops(post);
  return attributes;
}

dnnl::primitive_attr UserScratchpad() {
  dnnl::primitive_attr attributes;
  attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  return attributes;
}

dnnl::matmul::primitive_desc Product(const dnnl::engine& engine, const memory::desc& a, const memory::desc& b,
                                     const memory::desc& c, const dnnl::primitive_attr& attributes) {
#if DNNL_VERSION_MAJOR < 3
  return {dnnl::matmul::desc(a, b, c), attributes, engine};
#else
  return {engine, a, b, c, attributes};
#endif
}

auto Softmax(const dnnl::engine& engine, const memory::desc& from, const memory::desc& to) {
  constexpr auto kKind = dnnl::prop_kind::forward_inference;
  constexpr auto kAlgorithm = dnnl::algorithm::softmax_accurate;
#if DNNL_VERSION_MAJOR < 3
  return dnnl::softmax_v2_forward::primitive_desc(dnnl::softmax_v2_forward::desc(kKind, kAlgorithm, from, to, 1),
                                                  UserScratchpad(), engine);
#else
  return dnnl::softmax_forward::primitive_desc(engine, kKind, kAlgorithm, from, to, 1, UserScratchpad());
#endif
}

}  // namespace

Stage MakeStage(const dnnl::engine& engine, const StageShape& s) {
  Stage stage;
  stage.q = Matrix(s.rows, s.qk_dim, s.type, s.q_row);
  stage.k = Matrix(s.qk_dim, s.keys, s.type, 1, s.k_row);
  stage.scores = Matrix(s.rows, s.keys, DType::kF32, s.keys);
  stage.weights = Matrix(s.rows, s.keys, s.type, s.keys);
  stage.v = Matrix(s.keys, s.v_dim, s.type, s.v_row);
  stage.out = Matrix(s.rows, s.v_dim, s.out_type, s.out_row);
  constexpr int kPlace = DNNL_VERSION_MAJOR < 3 ? 0 : 1;  // version 3 scales by a post-op of its own
  stage.mask_argument = DNNL_ARG_ATTR_MULTIPLE_POST_OP(kPlace) | DNNL_ARG_SRC_1;
  if (s.mask_row) stage.mask = Matrix(s.rows, s.keys, DType::kF32, *s.mask_row);

  const auto qk = Product(engine, stage.q, stage.k, stage.scores, ScoreAttributes(s, stage.mask));
  const auto softmax = Softmax(engine, stage.scores, stage.weights);
  const auto pv = Product(engine, stage.weights, stage.v, stage.out, UserScratchpad());
  stage.qk_scratch = qk.scratchpad_desc();
  stage.softmax_scratch = softmax.scratchpad_desc();
  stage.pv_scratch = pv.scratchpad_desc();
  stage.implementations = std::string("qk ") + qk.impl_info_str();
  stage.implementations.append(", softmax ").append(softmax.impl_info_str());
  stage.implementations.append(", pv ").append(pv.impl_info_str());
  stage.qk = dnnl::matmul(qk);
  stage.softmax = decltype(stage.softmax)(softmax);
  stage.pv = dnnl::matmul(pv);
  return stage;
}

}  // namespace attenio::unfused

#endif  // ATTENIO_HAVE_ONEDNN
