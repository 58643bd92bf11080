// 2^x of every float from -126 to 127, on every target: about half a minute each.
#define ATTENIO_EVERY_FLOAT 1
#include "kernels/exp_test.cc"
