#ifndef DSCKPT_EXAMPLES_CHAR_MODEL_H_
#define DSCKPT_EXAMPLES_CHAR_MODEL_H_

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

/// A character-level language model: the characters of a context are embedded, concatenated and
/// sent through a hidden layer and a residual block (tanh); a softmax predicts the next character.
/// Adam. One thread and a fixed order of additions: the same binary computes the same bits.
class CharModel {
 public:
  static constexpr int kContext = 16, kEmbed = 32, kHidden = kContext * kEmbed, kBatch = 32;

  /// A trainable matrix with its gradient and Adam's moments, row-major.
  struct Param {
    Param(std::string param_name, int64_t row_count, int64_t column_count)
        : name(std::move(param_name)), rows(row_count), columns(column_count) {
      for (auto* v : {&value, &gradient, &m, &v2}) v->resize(static_cast<size_t>(rows * columns));
    }
    std::string name;
    int64_t rows, columns;
    std::vector<float> value, gradient, m, v2;
  };

  /// splitmix64: the whole state is one word.
  struct Rng {
    uint64_t state = 1;
    uint64_t Next() {
      uint64_t z = (state += 0x9E3779B97F4A7C15);
      z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9;
      z = (z ^ (z >> 27)) * 0x94D049BB133111EB;
      return z ^ (z >> 31);
    }
    float Uniform() { return static_cast<float>(Next() >> 40) * 0x1p-23f - 1.0f; }  // [-1, 1)
  };

  /// REQUIRES: `text` is longer than a context.
  explicit CharModel(const std::string& text) {
    std::array<int, 256> code{};
    for (unsigned char c : text) code[c] = 1;
    for (int& c : code) {
      if (c != 0) c = vocabulary_++;
    }
    for (unsigned char c : text) text_.push_back(code[c]);
    params = {{"embedding", vocabulary_, kEmbed},
              {"hidden", kHidden, kHidden},
              {"block", kHidden, kHidden},
              {"output", kHidden, vocabulary_}};
    for (Param& p : params) {
      const float scale = 1 / std::sqrt(static_cast<float>(p.rows));
      for (float& w : p.value) w = rng.Uniform() * scale;
    }
  }

  /// Draws a batch and fills the gradients; returns the mean loss in nats a character. Reads the
  /// parameters and changes none of them.
  double ForwardBackward() {
    Param &embedding = params[0], &hidden = params[1], &block = params[2], &output = params[3];
    const int64_t n = kBatch, h = kHidden, v = vocabulary_;
    std::array<size_t, kBatch> at;
    for (size_t& a : at) a = rng.Next() % (text_.size() - kContext);

    Matrix x(n * h), a(n * h), b(n * h), sum(n * h), p(n * v);
    for (int64_t i = 0; i < n * h; ++i) x[i] = Embedded(embedding.value, at, i);
    MatMul(x, hidden.value, a, n, h, h);
    for (float& e : a) e = std::tanh(e);
    MatMul(a, block.value, b, n, h, h);
    for (float& e : b) e = std::tanh(e);
    for (int64_t i = 0; i < n * h; ++i) sum[i] = a[i] + b[i];
    MatMul(sum, output.value, p, n, h, v);
    const double loss = SoftmaxLoss(p, at);  // p becomes d loss / d logits

    Matrix d_sum(n * h), d_b(n * h), d_a(n * h), d_x(n * h);
    Gradient(sum, p, output.gradient, n, h, v);
    MatMulTransposed(p, output.value, d_sum, n, v, h);
    for (int64_t i = 0; i < n * h; ++i) d_b[i] = d_sum[i] * (1 - b[i] * b[i]);
    Gradient(a, d_b, block.gradient, n, h, h);
    MatMulTransposed(d_b, block.value, d_a, n, h, h);
    for (int64_t i = 0; i < n * h; ++i) d_a[i] = (d_a[i] + d_sum[i]) * (1 - a[i] * a[i]);
    Gradient(x, d_a, hidden.gradient, n, h, h);
    MatMulTransposed(d_a, hidden.value, d_x, n, h, h);
    std::fill(embedding.gradient.begin(), embedding.gradient.end(), 0.0f);
    for (int64_t i = 0; i < n * h; ++i) Embedded(embedding.gradient, at, i) += d_x[i];
    return loss;
  }

  /// Adam, for update number `step` (from 1).
  void Update(int64_t step) {
    const double t = static_cast<double>(step);
    const float rate =
        static_cast<float>(2e-3 * std::sqrt(1 - std::pow(0.999, t)) / (1 - std::pow(0.9, t)));
    for (Param& p : params) {
      for (size_t i = 0; i < p.value.size(); ++i) {
        const float g = p.gradient[i];
        p.m[i] = 0.9f * p.m[i] + 0.1f * g;
        p.v2[i] = 0.999f * p.v2[i] + 0.001f * g * g;
        p.value[i] -= rate * p.m[i] / (std::sqrt(p.v2[i]) + 1e-8f);
      }
    }
  }

  std::vector<Param> params;
  Rng rng;

 private:
  struct Matrix : std::vector<float> {
    explicit Matrix(int64_t size) : std::vector<float>(static_cast<size_t>(size)) {}
    float& operator[](int64_t i) { return data()[i]; }
    float operator[](int64_t i) const { return data()[i]; }
  };

  /// Element i of the batch of concatenated embeddings, in the table `table`.
  float& Embedded(std::vector<float>& table, const std::array<size_t, kBatch>& at, int64_t i) {
    const size_t index = static_cast<size_t>(i), row = index / kHidden, column = index % kHidden;
    const int character = text_[at[row] + column / kEmbed];
    return table[static_cast<size_t>(character) * kEmbed + column % kEmbed];
  }

  /// out[n,c] = in[n,r] * w[r,c]
  static void MatMul(const std::vector<float>& in, const std::vector<float>& w,
                     std::vector<float>& out, int64_t n, int64_t r, int64_t c) {
    std::fill(out.begin(), out.end(), 0.0f);
    for (int64_t k = 0; k < r; ++k) {
      for (int64_t i = 0; i < n; ++i) {
        Axpy(in.data()[i * r + k], &w.data()[k * c], &out.data()[i * c], c);
      }
    }
  }

  /// g[r,c] = in[n,r] transposed * d[n,c]
  static void Gradient(const std::vector<float>& in, const std::vector<float>& d,
                       std::vector<float>& g, int64_t n, int64_t r, int64_t c) {
    std::fill(g.begin(), g.end(), 0.0f);
    for (int64_t k = 0; k < r; ++k) {
      for (int64_t i = 0; i < n; ++i) {
        Axpy(in.data()[i * r + k], &d.data()[i * c], &g.data()[k * c], c);
      }
    }
  }

  /// out[n,r] = d[n,c] * w[r,c] transposed
  static void MatMulTransposed(const std::vector<float>& d, const std::vector<float>& w,
                               std::vector<float>& out, int64_t n, int64_t c, int64_t r) {
    std::vector<float> transposed(w.size());
    for (int64_t k = 0; k < r; ++k) {
      for (int64_t j = 0; j < c; ++j) transposed.data()[j * r + k] = w.data()[k * c + j];
    }
    MatMul(d, transposed, out, n, c, r);
  }

  static void Axpy(float factor, const float* in, float* out, int64_t count) {
    for (int64_t j = 0; j < count; ++j) out[j] += factor * in[j];
  }

  /// Mean cross entropy; turns the logits into their gradients.
  double SoftmaxLoss(std::vector<float>& logits, const std::array<size_t, kBatch>& at) const {
    double loss = 0;
    for (size_t i = 0; i < at.size(); ++i) {
      float* row = &logits[i * static_cast<size_t>(vocabulary_)];
      const float largest = *std::max_element(row, row + vocabulary_);
      float total = 0;
      for (int j = 0; j < vocabulary_; ++j) total += row[j] = std::exp(row[j] - largest);
      const int next = text_[at[i] + kContext];
      loss -= std::log(static_cast<double>(row[next] / total)) / kBatch;
      for (int j = 0; j < vocabulary_; ++j) row[j] /= total * kBatch;
      row[next] -= 1.0f / kBatch;
    }
    return loss;
  }

  int vocabulary_ = 0;
  std::vector<int> text_;
};

#endif  // DSCKPT_EXAMPLES_CHAR_MODEL_H_
