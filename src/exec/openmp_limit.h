// How many threads other libraries may take from OpenMP.
#ifndef ATTENIO_SRC_EXEC_OPENMP_LIMIT_H_
#define ATTENIO_SRC_EXEC_OPENMP_LIMIT_H_

namespace attenio {

// While it lives, parallel regions that the calling thread opens without a number of their own have at most `threads` threads.
// Without OpenMP it does nothing.
class OpenMPLimit {
 public:
  explicit OpenMPLimit(int threads);
  ~OpenMPLimit();
  OpenMPLimit(const OpenMPLimit&) = delete;
  OpenMPLimit& operator=(const OpenMPLimit&) = delete;

 private:
  int before_;
};

}  // namespace attenio

#endif  // ATTENIO_SRC_EXEC_OPENMP_LIMIT_H_
