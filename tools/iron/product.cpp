#include "product.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <mutex>
#include <thread>

#include "iron/dsl.h"
#include "iron/dsl/hopper/fp8.h"
#include "iron/error.h"
#include "runtime/compile.h"

namespace iron::tool {

std::string to_string(const ProductShape& s) { return fmt::format("{}x{}x{}", s.m, s.n, s.k); }

std::string to_string(const ProductKind& k) {
  std::string text = k.e4m3 ? "e4m3" : std::string(dtype_name(k.input));
  if (k.e4m3 || k.input != k.output) text += fmt::format(" to {}", dtype_name(k.output));
  return text + (k.weight_major ? "" : " [K, N]");
}

ProductKind kind_of(KernelInstance& kernel, const kernels::ProductForm& form) {
  return {kernel.find(form.a)->ops->dtype, kernel.find(form.c)->ops->dtype, form.e4m3, form.weight_major};
}

void bind_product(KernelInstance& kernel, const kernels::ProductForm& form, const ProductShape& s, void* a, void* b,
                  void* c) {
  kernels::bind_gemm(kernel, form, s.m, s.n, s.k, a, b, c);
}

void in_parallel(u64 count, u32 threads, const std::function<void(u64, u64)>& work) {
  if (threads == 0) threads = std::max(1u, std::thread::hardware_concurrency());
  const u64 part = (count + threads - 1) / threads;
  std::vector<std::thread> others;
  for (u64 from = part; from < count; from += part)
    others.emplace_back([&work, from, to = std::min(count, from + part)] { work(from, to); });
  work(0, std::min(count, part));
  for (auto& t : others) t.join();
}

namespace {

u64 mixed(u64 z) {  // splitmix64
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
  return z ^ (z >> 31);
}

// The sum of four uniform numbers: mean 0, deviation 1, at most 3.47.
f64 element(u64 seed, u64 i) {
  const u64 bits = mixed(seed * 0x9e3779b97f4a7c15ull + (i + 1) * 0xd1b54a32d192ed03ull);
  const i64 sum = static_cast<i64>((bits & 0xffff) + (bits >> 16 & 0xffff) + (bits >> 32 & 0xffff) + (bits >> 48));
  constexpr f64 unit = 1.7320508075688772 / 65536;  // sqrt(3): a uniform number of width 1 has variance 1/12
  return static_cast<f64>(sum - 2 * 65535) * unit;
}

template <class F>
void of_type(const ProductKind& kind, F f) {
  if (kind.e4m3) return f(e4m3{});
  if (kind.input == DType::f16) return f(f16{});
  if (kind.input == DType::bf16) return f(bf16{});
  return f(f32{});
}

std::vector<std::byte> values(const ProductKind& kind, u64 count, u64 seed, u32 threads) {
  std::vector<std::byte> out(count * dtype_size(kind.input));
  of_type(kind, [&]<class T>(T) {
    const f64 deviation = kind.e4m3 ? 0.5 : 1.0;
    in_parallel(count, threads, [&](u64 from, u64 to) {
      for (u64 i = from; i < to; ++i) {
        const T v(static_cast<std::conditional_t<std::is_same_v<T, f32>, f32, f64>>(deviation * element(seed, i)));
        std::memcpy(out.data() + i * sizeof v, &v, sizeof v);
      }
    });
  });
  return out;
}

// Exactly as f32, [rows, columns]; with `turned` the result is [columns, rows].
std::vector<f32> widened(const ProductKind& kind, std::span<const std::byte> from, u64 rows, u64 columns, bool turned,
                         u32 threads) {
  std::vector<f32> out(rows * columns);
  of_type(kind, [&]<class T>(T) {
    const auto at = [&](u64 i) {
      T v;
      std::memcpy(&v, from.data() + i * sizeof v, sizeof v);
      return static_cast<f32>(static_cast<f64>(v));
    };
    constexpr u64 block = 32;
    in_parallel((rows + block - 1) / block, threads, [&](u64 first, u64 last) {
      for (u64 r0 = first * block; r0 < std::min(rows, last * block); r0 += block)
        for (u64 c0 = 0; c0 < columns; c0 += block)
          for (u64 r = r0; r < std::min(rows, r0 + block); ++r)
            for (u64 c = c0; c < std::min(columns, c0 + block); ++c)
              out[turned ? c * rows + r : r * columns + c] = at(r * columns + c);
    });
  });
  return out;
}

// c[m, n] = sum_k a[m, k] * b[k, n] in f64     a: [M, K], b: [K, N], both f32
struct ProductOracle {
  static constexpr Mode mode = Mode::Threadgroup;
  static constexpr u32 rows = 8;

  In<f32> a, b;
  Out<f64> c;
  Scalar<u32> m, n, k;

  Grid grid() const {
    const u32 columns = product_oracle_threads.x;
    return {Threadgroups{(n.value() + columns - 1) / columns * ((m.value() + rows - 1) / rows)}, Threads{columns}};
  }
  void operator()() const {
    const u32 columns = product_oracle_threads.x;
    const auto across = ceil_div(n, columns);
    const auto column = threadgroup_id() % across * columns + thread_id();
    const auto row = threadgroup_id() / across * rows;
    Vars<f64> sums(rows, 0.0);
    for (auto t : range(0u, k)) {
      const Val<f64> right = cast<f64>(b.load_or(column < n, t * n + column, 0.0f));
      for (u32 r = 0; r < rows; ++r)
        sums[r] = fma(cast<f64>(a.load_or(row + r < m, (row + r) * k + t, 0.0f)), right, sums[r]);
    }
    for (u32 r = 0; r < rows; ++r) if_(column < n && row + r < m) {
        c[(row + r) * n + column] = sums[r];
      }
  }
};

}  // namespace

ProductData make_product(const ProductKind& kind, const ProductShape& shape, u64 seed, u32 threads) {
  return {kind, shape, values(kind, u64{shape.m} * shape.k, 2 * seed, threads),
          values(kind, u64{shape.n} * shape.k, 2 * seed + 1, threads)};
}

std::shared_ptr<ir::Kernel> record_product_oracle() { return record(unbound<ProductOracle>(), "product_oracle"); }

std::vector<f64> product_oracle(runtime::Backend& device, const ProductData& data, u32 threads) {
  const auto& s = data.shape;
  const bool turned = data.kind.weight_major;
  const auto a = widened(data.kind, data.a, s.m, s.k, false, threads);
  const auto b = widened(data.kind, data.b, turned ? s.n : s.k, turned ? s.k : s.n, turned, threads);
  std::vector<f64> c(u64{s.m} * s.n);
  struct Memory {
    Memory(runtime::Backend& d, u64 n) : device(d), bytes(n), data(d.allocate(n)) {}
    ~Memory() { device.release(data); }
    Memory(const Memory&) = delete;
    runtime::Backend& device;
    u64 bytes;
    void* data;
  };
  Memory da(device, a.size() * sizeof(f32)), db(device, b.size() * sizeof(f32)), dc(device, c.size() * sizeof(f64));
  device.upload(da.data, a.data(), da.bytes);
  device.upload(db.data, b.data(), db.bytes);
  device.fill(dc.data, 0xff, dc.bytes);
  const ProductOracle kernel{.a = BufferRef{da.data, da.bytes, true},
                             .b = BufferRef{db.data, db.bytes, true},
                             .c = BufferRef{dc.data, dc.bytes, true},
                             .m = s.m,
                             .n = s.n,
                             .k = s.k};
  const auto compiled = runtime::compile_for(device.info().backend, record_product_oracle());
  const auto exe = device.prepare(*compiled->optimised, product_oracle_threads);
  std::vector<LaunchArg> args;
  for (const auto& x : arguments(kernel)) args.push_back(x.launch_arg(x.scalar ? nullptr : x.buffer.data));
  device.launch(exe, {{kernel.grid().groups.x, 1, 1}, product_oracle_threads, 0}, args);
  device.synchronize();
  device.download(c.data(), dc.data, dc.bytes);
  return c;
}

namespace {
f64 stored(DType type, const std::byte* at) {
  const auto read = [&]<class T>(T v) {
    std::memcpy(&v, at, sizeof v);
    return static_cast<f64>(v);
  };
  return type == DType::f16 ? read(f16{}) : type == DType::bf16 ? read(bf16{}) : read(f32{});
}
}  // namespace

ProductVerdict judge_product(const ProductData& data, std::span<const std::byte> got, std::span<const f64> expected,
                             f64 limit, u32 threads) {
  const DType type = data.kind.output;
  const u64 size = dtype_size(type), count = expected.size();
  ProductVerdict v{true, 0, 1, {}};
  if (got.size() != count * size) return {false, 0, 0, "the result has another length than what is expected of it"};
  std::mutex mutex;
  f64 dot = 0, got2 = 0, want2 = 0;
  in_parallel(count, threads, [&](u64 from, u64 to) {
    f64 sum = 0;
    for (u64 i = from; i < to; ++i) sum += expected[i] * expected[i];
    const std::lock_guard lock(mutex);
    want2 += sum;
  });
  const f64 usual = std::sqrt(want2 / static_cast<f64>(std::max<u64>(count, 1)));
  u64 first_fault = count;
  f64 worst = 0;
  in_parallel(count, threads, [&](u64 from, u64 to) {
    f64 d = 0, g2 = 0, most = 0;
    u64 fault = count;
    for (u64 i = from; i < to; ++i) {
      const f64 g = stored(type, got.data() + i * size), w = expected[i];
      const f64 error = std::isfinite(g) ? std::abs(g - w) / std::max(usual, std::abs(w)) : INFINITY;
      most = std::max(most, error);
      if (error > limit && fault == count) fault = i;
      d += g * w, g2 += g * g;
    }
    const std::lock_guard lock(mutex);
    dot += d, got2 += g2, worst = std::max(worst, most), first_fault = std::min(first_fault, fault);
  });
  v.max_error = worst;
  v.cosine = want2 > 0 && got2 > 0 ? dot / std::sqrt(got2 * want2) : want2 > 0 ? 0 : 1;
  if (first_fault < count) {
    const f64 g = stored(type, got.data() + first_fault * size);
    v.passed = false;
    v.message =
        fmt::format("c[{}, {}] is {}, expected {} (largest error {:.3g}, allowed {:.3g})", first_fault / data.shape.n,
                    first_fault % data.shape.n, g, expected[first_fault], worst, limit);
  } else if (!(v.cosine >= 0.999)) {
    v.passed = false, v.message = fmt::format("cosine {:.6f} is below 0.999", v.cosine);
  }
  return v;
}

}  // namespace iron::tool
