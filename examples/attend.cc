// The shortest use: causal attention with grouped query heads, one call.
#include <attenio/attention.h>

#include <cstdio>
#include <vector>

int main() {
  attenio::AttentionDesc desc;
  desc.q_heads = 8;
  desc.kv_heads = 2;
  desc.q_len = desc.kv_len = 256;
  desc.qk_dim = desc.v_dim = 64;
  desc.causal = true;

  std::vector<float> q(8 * 256 * 64), k(2 * 256 * 64), v(2 * 256 * 64), out(q.size());
  for (size_t i = 0; i < q.size(); ++i) q[i] = static_cast<float>(i % 17) / 17;
  for (size_t i = 0; i < k.size(); ++i) k[i] = static_cast<float>(i % 13) / 13;
  for (size_t i = 0; i < v.size(); ++i) v[i] = static_cast<float>(i % 11);

  const attenio::Status status = attenio::Attend(desc, {.q = q.data(), .k = k.data(), .v = v.data(), .out = out.data()});
  if (!status.ok()) {
    std::fprintf(stderr, "%s\n", status.message());
    return 1;
  }
  // Query 0 may attend key 0 only, so its output is v[0].
  std::printf("out[0][0] = %g (v[0][0] = %g), out[255][0] = %g\n", out[0], v[0], out[255 * 64]);
  return out[0] == v[0] ? 0 : 1;
}
