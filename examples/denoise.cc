// Denoising a picture by non-local means, which is softmax attention: every pixel becomes the mean of all pixels of its kind,
// weighted by exp(-|p_i - p_j|^2 / h^2), where p are the 7 x 7 patches around them, reduced to 16 dimensions by PCA.
// Expanded, the exponent is 2 p_i p_j / h^2 minus |p_j|^2 / h^2 and a constant of row i: attention with one dimension more.
// Computed exactly and by certified polynomials; writes the pictures before and after, prints PSNR, time and error.
//
//   example_denoise [--size N] [--noise S] [--width W] [--error E] [--kinds K] [--out PREFIX] [PICTURE]
//
// PICTURE: .png (in builds with libpng), .pgm or .ppm with 8 bits; without one a picture of N x N pixels is made.
#include <attenio/approx.h>
#include <attenio/attention.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <random>
#include <string>
#include <vector>

#ifdef HAVE_PNG
#include <png.h>
#endif

namespace {

constexpr int kSide = 7, kDims = 16;

struct Picture {
  int64_t width = 0, height = 0, channels = 1;  // grey or RGB
  std::vector<float> pixels;                    // 0..255, channels adjacent
};

struct Arguments {
  std::string picture, out = "denoise";
  int64_t size = 512;
  int kinds = 24;
  double noise = 20, error = 0.1, width = 2.5;  // width: h / noise
};

[[noreturn]] void Fail(const std::string& text) {
  std::fprintf(stderr, "denoise: %s\n", text.c_str());
  std::exit(1);
}

void Require(const attenio::Status& status) {
  if (!status.ok()) Fail(status.message());
}

bool IsPng(const std::string& path) { return path.size() > 4 && path.substr(path.size() - 4) == ".png"; }

Picture FromBytes(int64_t width, int64_t height, int64_t channels, const std::vector<uint8_t>& bytes) {
  return {width, height, channels, std::vector<float>(bytes.begin(), bytes.end())};
}

Picture ReadPnm(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::string magic;
  int64_t width = 0, height = 0, most = 0;
  file >> magic >> width >> height >> most;
  file.get();
  if (!file || (magic != "P5" && magic != "P6") || most != 255 || width < 1 || height < 1 || width > 16384 || height > 16384) {
    Fail(path + ": expected a binary PGM or PPM with 8 bits and without comments");
  }
  const int64_t channels = magic == "P5" ? 1 : 3;
  std::vector<uint8_t> bytes(static_cast<size_t>(width * height * channels));
  if (!file.read(reinterpret_cast<char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()))) Fail(path + ": too short");
  return FromBytes(width, height, channels, bytes);
}

#ifdef HAVE_PNG
constexpr const char* kEnding = ".png";

Picture ReadPng(const std::string& path) {
  png_image image{};
  image.version = PNG_IMAGE_VERSION;
  if (!png_image_begin_read_from_file(&image, path.c_str())) Fail(path + ": " + image.message);
  image.format = image.format & PNG_FORMAT_FLAG_COLOR ? PNG_FORMAT_RGB : PNG_FORMAT_GRAY;
  std::vector<uint8_t> bytes(PNG_IMAGE_SIZE(image));
  const png_color white{255, 255, 255};  // behind transparent pixels
  if (!png_image_finish_read(&image, &white, bytes.data(), 0, nullptr)) Fail(path + ": " + image.message);
  return FromBytes(image.width, image.height, PNG_IMAGE_SAMPLE_CHANNELS(image.format), bytes);
}

void WriteBytes(const std::string& path, const Picture& p, const std::vector<uint8_t>& bytes) {
  png_image image{};
  image.version = PNG_IMAGE_VERSION;
  image.width = static_cast<png_uint_32>(p.width);
  image.height = static_cast<png_uint_32>(p.height);
  image.format = p.channels == 3 ? PNG_FORMAT_RGB : PNG_FORMAT_GRAY;
  if (!png_image_write_to_file(&image, path.c_str(), 0, bytes.data(), 0, nullptr)) Fail(path + ": " + image.message);
}
#else
constexpr const char* kEnding = ".pnm";

Picture ReadPng(const std::string& path) { Fail(path + ": built without libpng; convert it to .ppm"); }

void WriteBytes(const std::string& path, const Picture& p, const std::vector<uint8_t>& bytes) {
  std::ofstream file(path, std::ios::binary);
  file << (p.channels == 3 ? "P6 " : "P5 ") << p.width << ' ' << p.height << " 255\n";
  file.write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
  if (!file.flush()) Fail("cannot write " + path);
}
#endif

void Write(const std::string& path, const Picture& p) {
  std::vector<uint8_t> bytes;
  for (float x : p.pixels) bytes.push_back(static_cast<uint8_t>(std::clamp(std::lround(x), 0L, 255L)));
  WriteBytes(path, p, bytes);
}

// Sky and ground with soft light, discs with edges, stripes, a weave and a slope.
Picture Paint(int64_t n) {
  Picture p{n, n, 1, {}};
  for (int64_t i = 0; i < n * n; ++i) {
    const double x = static_cast<double>(i % n) / static_cast<double>(n), y = static_cast<double>(i / n) / static_cast<double>(n);
    const double pixel_x = static_cast<double>(i % n), pixel_y = static_cast<double>(i / n);
    double value = y < 0.55 + 0.05 * std::sin(7 * x) ? 170 - 60 * y : 95 + 30 * x;
    if (std::hypot(x - 0.25, y - 0.28) < 0.16) value = 215;
    if (std::hypot(x - 0.31, y - 0.24) < 0.07) value = 140;
    if (std::abs(x - 0.7) + std::abs(y - 0.3) < 0.18) value = 110 + 45 * std::sin(pixel_x * 0.8 + pixel_y * 0.3);
    if (x > 0.1 && x < 0.42 && y > 0.68 && y < 0.92) value = std::fmod(pixel_x, 16) < 8 ? 60 : 120;
    if (x > 0.55 && x < 0.9 && y > 0.7 && y < 0.9) value = 100 + 30 * std::sin(pixel_x * 0.5) * std::sin(pixel_y * 0.5);
    p.pixels.push_back(static_cast<float>(value));
  }
  return p;
}

Picture WithNoise(Picture p, double sigma) {
  std::mt19937 random(1);
  std::normal_distribution<float> normal(0, static_cast<float>(sigma));
  for (float& x : p.pixels) x = std::clamp(x + normal(random), 0.0f, 255.0f);
  return p;
}

// One row for each pixel: all channels of the patch around it; the picture is mirrored at its edges.
std::vector<float> Patches(const Picture& p) {
  const auto mirror = [](int64_t i, int64_t n) { return std::clamp(i < 0 ? -i : i >= n ? 2 * n - 2 - i : i, int64_t{0}, n - 1); };
  std::vector<float> patches;
  patches.reserve(p.pixels.size() * kSide * kSide);
  for (int64_t i = 0; i < p.width * p.height; ++i) {
    for (int t = 0; t < kSide * kSide; ++t) {
      const int64_t x = mirror(i % p.width + t % kSide - kSide / 2, p.width), y = mirror(i / p.width + t / kSide - kSide / 2, p.height);
      const float* pixel = &p.pixels[static_cast<size_t>((y * p.width + x) * p.channels)];
      patches.insert(patches.end(), pixel, pixel + p.channels);
    }
  }
  return patches;
}

using Basis = std::vector<std::vector<double>>;

// Leading eigenvectors of the patches' second moments by orthogonal iteration. (The mean patch is left in: distances, which are
// all that is used, do not see it.)
Basis PrincipalAxes(const std::vector<float>& patches, size_t length) {
  const size_t rows = patches.size() / length, step = std::max<size_t>(1, rows / 20000);
  Basis moment(length, std::vector<double>(length)), axes(kDims, std::vector<double>(length));
  for (size_t i = 0; i < rows; i += step) {
    for (size_t a = 0; a < length; ++a) {
      for (size_t b = 0; b < length; ++b) moment[a][b] += double{patches[i * length + a]} * patches[i * length + b];
    }
  }
  for (size_t k = 0; k < kDims; ++k) {
    for (size_t a = 0; a < length; ++a) axes[k][a] = std::cos((static_cast<double>(k) + 0.5) * (static_cast<double>(a) + 0.5)) + (a == k);
  }
  for (int iteration = 0; iteration < 100; ++iteration) {
    for (size_t k = 0; k < kDims; ++k) {
      std::vector<double> next(length);
      for (size_t a = 0; a < length; ++a) {
        for (size_t b = 0; b < length; ++b) next[a] += moment[a][b] * axes[k][b];
      }
      for (size_t j = 0; j < k; ++j) {
        double dot = 0;
        for (size_t a = 0; a < length; ++a) dot += next[a] * axes[j][a];
        for (size_t a = 0; a < length; ++a) next[a] -= dot * axes[j][a];
      }
      double square = 1e-300;
      for (double x : next) square += x * x;
      for (size_t a = 0; a < length; ++a) axes[k][a] = next[a] / std::sqrt(square);
    }
  }
  return axes;
}

std::vector<float> Project(const std::vector<float>& patches, const Basis& axes) {
  const size_t length = axes[0].size();
  std::vector<float> points;
  points.reserve(patches.size() / length * kDims);
  for (size_t i = 0; i < patches.size(); i += length) {
    for (const std::vector<double>& axis : axes) {
      double sum = 0;
      for (size_t a = 0; a < length; ++a) sum += axis[a] * patches[i + a];
      points.push_back(static_cast<float>(sum));
    }
  }
  return points;
}

double Distance(const float* a, const float* b) {
  double sum = 0;
  for (int c = 0; c < kDims; ++c) sum += (double{a[c]} - b[c]) * (double{a[c]} - b[c]);
  return sum;
}

// Pixels by kind of patch (k-means): a pixel looks for its like among all pixels of its kind, wherever they are. The nearer the
// patches of a kind, the smaller the scores and the lower the degree that a certificate takes.
std::vector<std::vector<int64_t>> Kinds(const std::vector<float>& points, int count) {
  const int64_t n = static_cast<int64_t>(points.size()) / kDims;
  std::mt19937 random(1);
  std::vector<float> centres;
  for (int k = 0; k < count; ++k) {
    const float* point = &points[static_cast<size_t>(random() % static_cast<uint64_t>(n) * kDims)];
    centres.insert(centres.end(), point, point + kDims);
  }
  std::vector<std::vector<int64_t>> kinds;
  for (int iteration = 0; iteration <= 12; ++iteration) {
    const int64_t step = iteration < 12 ? std::max<int64_t>(1, n / 20000) : 1;  // the last pass places every pixel
    kinds.assign(static_cast<size_t>(count), {});
    std::vector<double> sums(centres.size());
    for (int64_t i = 0; i < n; i += step) {
      int best = 0;
      for (int k = 1; k < count; ++k) {
        if (Distance(&points[i * kDims], &centres[k * kDims]) < Distance(&points[i * kDims], &centres[best * kDims])) best = k;
      }
      kinds[best].push_back(i);
      for (int c = 0; c < kDims; ++c) sums[best * kDims + c] += points[i * kDims + c];
    }
    for (size_t c = 0; c < sums.size() && step > 1; ++c) {
      const size_t members = kinds[c / kDims].size();
      if (members > 0) centres[c] = static_cast<float>(sums[c] / static_cast<double>(members));
    }
  }
  std::erase_if(kinds, [](const auto& kind) { return kind.empty(); });
  return kinds;
}

// One attention problem: the pixels of a kind attend each other.
struct Problem {
  attenio::AttentionDesc desc;
  std::vector<float> q, k, v, exact, approximate;
  attenio::Operands operands(std::vector<float>* out) const { return {.q = q.data(), .k = k.data(), .v = v.data(), .out = out->data()}; }
};

// The kind's points, centred, every coordinate shortened to its part that is not noise (as a Wiener filter does): where patches of
// a kind differ no more than noise does, a difference says nothing.
std::vector<float> Coordinates(const std::vector<float>& points, const std::vector<int64_t>& kind, double noise) {
  std::vector<float> own;
  for (int64_t i : kind) own.insert(own.end(), &points[i * kDims], &points[i * kDims] + kDims);
  const double n = static_cast<double>(kind.size());
  for (int c = 0; c < kDims; ++c) {
    double mean = 0, variance = 0;
    for (size_t r = 0; r < kind.size(); ++r) mean += own[r * kDims + c] / n;
    for (size_t r = 0; r < kind.size(); ++r) variance += std::pow(own[r * kDims + c] - mean, 2) / n;
    const double part = std::sqrt(std::max(0.0, variance - noise * noise) / std::max(variance, 1e-9));
    for (size_t r = 0; r < kind.size(); ++r) own[r * kDims + c] = static_cast<float>((own[r * kDims + c] - mean) * part);
  }
  return own;
}

Problem MakeProblem(const Picture& noisy, const std::vector<float>& points, const std::vector<int64_t>& kind, const Arguments& a) {
  const size_t n = kind.size(), channels = static_cast<size_t>(noisy.channels);
  Problem p;
  const std::vector<float> own = Coordinates(points, kind, a.noise);
  double mean_square = 0;
  std::vector<double> squares(n);
  for (size_t i = 0; i < own.size(); ++i) squares[i / kDims] += double{own[i]} * own[i];
  for (double square : squares) mean_square += square / static_cast<double>(n);
  // 2 p_i p_j - |p_j|^2 as a product of kDims + 1 numbers; `balance` keeps the lengths of both sides alike.
  const double balance = std::sqrt(mean_square / 2) + 1e-3;
  for (size_t r = 0; r < n; ++r) {
    p.q.insert(p.q.end(), &own[r * kDims], &own[r * kDims] + kDims);
    p.k.insert(p.k.end(), &own[r * kDims], &own[r * kDims] + kDims);
    p.q.push_back(static_cast<float>(balance));
    p.k.push_back(static_cast<float>((mean_square - squares[r]) / (2 * balance)));
    const float* pixel = &noisy.pixels[kind[r] * channels];
    p.v.insert(p.v.end(), pixel, pixel + channels);
  }
  p.desc = {.q_len = static_cast<int64_t>(n), .kv_len = static_cast<int64_t>(n), .qk_dim = kDims + 1, .v_dim = noisy.channels};
  const double h = a.width * a.noise;
  p.desc.scale = 2 / (h * h);
  p.exact.resize(p.v.size());
  p.approximate.resize(p.v.size());
  return p;
}

double Seconds() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

double Psnr(const Picture& a, const Picture& b) {
  double square = 0;
  for (size_t i = 0; i < a.pixels.size(); ++i) square += std::pow(double{a.pixels[i]} - b.pixels[i], 2);
  return 10 * std::log10(255.0 * 255.0 * static_cast<double>(a.pixels.size()) / std::max(square, 1e-9));
}

// Largest and smallest value of a column: what the certified error is relative to.
double Range(const std::vector<float>& v) {
  const auto [low, high] = std::minmax_element(v.begin(), v.end());
  return double{*high} - *low;
}

struct Totals {
  double exact_seconds = 0, approximate_seconds = 0;
  double error = 0, square = 0, bound = 0;  // in grey levels
  double rows = 0, polynomial_rows = 0;
  int degree = -1;
};

void Compute(Problem* p, const Arguments& a, Totals* t) {
  attenio::ApproxReport report;
  double start = Seconds();
  Require(attenio::AttendApprox(p->desc, p->operands(&p->approximate), {.max_error = a.error}, &report));
  t->approximate_seconds += Seconds() - start;
  start = Seconds();
  Require(attenio::Attend(p->desc, p->operands(&p->exact)));
  t->exact_seconds += Seconds() - start;
  for (size_t i = 0; i < p->exact.size(); ++i) {
    const double error = std::abs(double{p->exact[i]} - p->approximate[i]);
    t->error = std::max(t->error, error);
    t->square += error * error;
  }
  t->bound = std::max(t->bound, report.certified * Range(p->v));
  t->rows += static_cast<double>(report.rows);
  t->polynomial_rows += static_cast<double>(report.rows - report.exact_rows);
  t->degree = std::max(t->degree, report.degree);
}

void Place(const std::vector<float>& values, const std::vector<int64_t>& kind, Picture* picture) {
  const size_t channels = static_cast<size_t>(picture->channels);
  for (size_t r = 0; r < kind.size(); ++r) std::copy_n(&values[r * channels], channels, &picture->pixels[kind[r] * channels]);
}

Arguments Parse(int count, char** words) {
  Arguments a;
  for (int i = 1; i < count; ++i) {
    const std::string word = words[i];
    if (word.substr(0, 2) != "--") {
      a.picture = word;
      continue;
    }
    const char* value = ++i < count ? words[i] : "";
    if (word == "--size") a.size = std::atoll(value);
    else if (word == "--noise") a.noise = std::atof(value);
    else if (word == "--width") a.width = std::atof(value);
    else if (word == "--error") a.error = std::atof(value);
    else if (word == "--kinds") a.kinds = std::atoi(value);
    else if (word == "--out") a.out = value;
    else Fail(word + ": expected --size, --noise, --width, --error, --kinds or --out, each with a value");
  }
  if (a.size < 8 || a.size > 4096 || !(a.noise > 0) || !(a.width > 0) || a.kinds < 1 || a.kinds > 1000) Fail("an argument is out of range");
  return a;
}

}  // namespace

int main(int argc, char** argv) {
  const Arguments a = Parse(argc, argv);
  const Picture clean = a.picture.empty() ? Paint(a.size) : IsPng(a.picture) ? ReadPng(a.picture) : ReadPnm(a.picture);
  const Picture noisy = WithNoise(clean, a.noise);
  Picture exact = noisy, approximate = noisy;

  const double start = Seconds();
  const std::vector<float> patches = Patches(noisy);
  const std::vector<float> points = Project(patches, PrincipalAxes(patches, static_cast<size_t>(kSide * kSide * noisy.channels)));
  const std::vector<std::vector<int64_t>> kinds = Kinds(points, a.kinds);
  std::printf("%lld x %lld pixels, noise %g: %zu kinds of patches in %.2f s\n", static_cast<long long>(clean.width),
              static_cast<long long>(clean.height), a.noise, kinds.size(), Seconds() - start);

  Totals t;
  for (const std::vector<int64_t>& kind : kinds) {
    Problem p = MakeProblem(noisy, points, kind, a);
    Compute(&p, a, &t);
    Place(p.exact, kind, &exact);
    Place(p.approximate, kind, &approximate);
  }
  const double before = Psnr(noisy, clean), after = Psnr(approximate, clean);
  std::printf("PSNR: noisy %.2f dB, exact %.2f dB, approximate %.2f dB\n", before, Psnr(exact, clean), after);
  std::printf("time: exact %.2f s, approximate %.2f s; %.0f %% of the pixels by polynomials of degree <= %d\n", t.exact_seconds,
              t.approximate_seconds, 100 * t.polynomial_rows / t.rows, t.degree);
  std::printf("error in grey levels: largest %.3g, RMSE %.3g; certified %.3g\n", t.error,
              std::sqrt(t.square / static_cast<double>(exact.pixels.size())), t.bound);
  Write(a.out + "-clean" + kEnding, clean);
  Write(a.out + "-noisy" + kEnding, noisy);
  Write(a.out + "-exact" + kEnding, exact);
  Write(a.out + "-approximate" + kEnding, approximate);
  std::printf("wrote %s-{clean,noisy,exact,approximate}%s\n", a.out.c_str(), kEnding);
  // f32 rounding of sums comes on top of the certificate.
  return t.error <= t.bound + 0.01 && (!a.picture.empty() || after > before + 3) ? 0 : 1;
}
