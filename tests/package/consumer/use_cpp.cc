// The public headers, and a call through the C++ API.
#include <attenio/attenio.h>
#include <attenio/attention.h>
#include <attenio/version.h>

#include <iostream>

int main() {
  const float q[2] = {1, 0}, k[4] = {1, 2, 1, 3}, v[2] = {3, 5};
  float out = 0;
  attenio::AttentionDesc desc;
  desc.q_len = 1;
  desc.kv_len = 2;
  desc.qk_dim = 2;
  desc.v_dim = 1;
  attenio::Operands operands;
  operands.q = q;
  operands.k = k;
  operands.v = v;
  operands.out = &out;
  const attenio::Status status = attenio::Attend(desc, operands);
  if (!status.ok()) {
    std::cerr << status.message() << '\n';
    return 1;
  }
  std::cout << "attenio " << attenio_version() << ": " << out << '\n';
  return out > 3.999f && out < 4.001f ? 0 : 1;
}
