// Branches, loops and moves: masks under structured control flow (R6).
#include <fmt/format.h>

#include "exec/machine.h"
#include "ir/eval.h"
#include "ir/scalar.h"

namespace iron::exec {

namespace {
template <class U>
void copy_lanes(std::byte* to, const std::byte* from, u32 elements, u32 width, u64 mask) {
  for (u32 e = 0; e < elements; ++e)
    for (u64 m = mask; m; m &= m - 1) {
      const std::size_t at = (std::size_t{e} * width + static_cast<u32>(std::countr_zero(m))) * sizeof(U);
      std::memcpy(to + at, from + at, sizeof(U));
    }
}
}  // namespace

void masked_copy(const Simdgroup& s, u32 to, u32 from, u32 size, u32 elements, u32 width, u64 mask) {
  std::byte* const out = s.regs + to;
  const std::byte* const in = s.regs + from;
  const u64 all = width == 64 ? ~u64{0} : (u64{1} << width) - 1;
  if ((mask & all) == all) {
    std::memcpy(out, in, std::size_t{size} * elements * width);
    return;
  }
  switch (size) {
    case 1:
      return copy_lanes<u8>(out, in, elements, width, mask);
    case 2:
      return copy_lanes<u16>(out, in, elements, width, mask);
    case 4:
      return copy_lanes<u32>(out, in, elements, width, mask);
    default:
      return copy_lanes<u64>(out, in, elements, width, mask);
  }
}

namespace {
using namespace ir;

void run_copies(Machine& m, Simdgroup& s, u32 first, u32 count, u64 mask) {
  for (u32 i = first; i < first + count; ++i) {
    const Copy& c = m.program.copies[i];
    masked_copy(s, c.to, c.from, c.size, c.lanes, m.width, mask);
  }
}

u64 condition_mask(const Machine& m, const Simdgroup& s, u32 at) { return odd_lanes(reg<u8>(s, at), m.width); }

// `first` is the then-branch, `target` the else-branch, `count` what follows.
Status if_begin(Machine& m, Simdgroup& s, const Instr& in) {
  const u64 c = condition_mask(m, s, in.a);
  Frame f;
  f.saved = s.mask, f.then_ = s.mask & c, f.else_ = s.mask & ~c;
  if (f.then_ == 0)
    f.else_first = false, s.pc = in.target, s.set_mask(f.else_);
  else {
    f.else_first = m.backwards() && f.else_ != 0;
    if (f.else_first)
      s.pc = in.target, s.set_mask(f.else_);
    else
      s.set_mask(f.then_);
  }
  s.frames.push_back(f);
  return Status::next;
}
void leave(Simdgroup& s, u32 to) {
  s.set_mask(s.frames.back().saved);
  s.frames.pop_back();
  s.pc = to;
}
Status then_end(Machine& m, Simdgroup& s, const Instr& in) {
  run_copies(m, s, in.first, in.count, s.mask);
  const Frame& f = s.frames.back();
  if (f.else_first || f.else_ == 0)
    leave(s, in.dst);
  else
    s.set_mask(f.else_), s.pc = in.target;
  return Status::next;
}
Status else_end(Machine& m, Simdgroup& s, const Instr& in) {
  run_copies(m, s, in.first, in.count, s.mask);
  const Frame& f = s.frames.back();
  if (f.else_first)
    s.set_mask(f.then_), s.pc = in.dst;
  else
    leave(s, in.target);
  return Status::next;
}

// Trips of each lane, computed without overflow: the distance of two numbers fits the unsigned type.
template <class T>
void count_trips(Machine& m, Simdgroup& s, const Instr& in) {
  const T *start = reg<T>(s, in.a), *end = reg<T>(s, in.b), *step = reg<T>(s, in.c);
  u64* trips = reg<u64>(s, in.d);
  for (u32 l = 0; l < m.width; ++l) {
    trips[l] = 0;
    if (!(s.mask >> l & 1) || !(start[l] < end[l])) continue;
    if (step[l] < 1) {
      if (m.fresh(code::bad_step, in.op))
        m.report(
            {code::bad_step, fmt::format("a loop steps by {} in {}", static_cast<i64>(step[l]), m.thread_name(s, l)),
             "steps are at least 1; count upwards and compute the falling value"},
            in.op);
      continue;
    }
    const u64 distance = static_cast<u64>(end[l]) - static_cast<u64>(start[l]);
    trips[l] = (distance - 1) / static_cast<u64>(step[l]) + 1;
  }
  std::memmove(reg<T>(s, in.dst), start, sizeof(T) * m.width);
}
template <class T>
void step_forward(Machine& m, Simdgroup& s, const Instr& in) {
  T* iv = reg<T>(s, in.a);
  const T* step = reg<T>(s, in.c);
  for (u32 l = 0; l < m.width; ++l) iv[l] = scalar::Add::apply(iv[l], step[l]);
}
template <class F>
void with_integer(DType t, F&& f) {
  switch (t) {
    case DType::i8:
      return f.template operator()<i8>();
    case DType::u8:
      return f.template operator()<u8>();
    case DType::i16:
      return f.template operator()<i16>();
    case DType::u16:
      return f.template operator()<u16>();
    case DType::i32:
      return f.template operator()<i32>();
    case DType::u32:
      return f.template operator()<u32>();
    case DType::u64:
      return f.template operator()<u64>();
    default:
      return f.template operator()<i64>();
  }
}

Status loop_begin(Machine& m, Simdgroup& s, const Instr& in) {
  with_integer(in.elem, [&]<class T>() { count_trips<T>(m, s, in); });
  run_copies(m, s, in.first, in.count, ~u64{0});
  Frame f;
  f.saved = s.mask;
  s.frames.push_back(f);
  return Status::next;
}
Status loop_head(Machine& m, Simdgroup& s, const Instr& in) {
  Frame& f = s.frames.back();
  const u64* trips = reg<u64>(s, in.d);
  u64 live = 0;
  u8 on[64];
  for (u32 l = 0; l < m.width; ++l) on[l] = f.trip < trips[l];
  live = odd_lanes(on, m.width);
  live &= s.mask;
  if (in.imm) live &= ~condition_mask(m, s, in.a);
  if (live == 0) {
    run_copies(m, s, in.first, in.count, ~u64{0});
    leave(s, in.target);
    return Status::next;
  }
  // A launch can only run for long in loops: both limits are looked at here.
  const bool all = m.result.statistics.instructions > m.options.max_instructions;
  if (f.trip >= m.options.max_trips || all) {
    if (m.fresh(code::runaway, in.op))
      m.report(
          {code::runaway,
           all ? fmt::format("the launch runs more than {} instructions, {} is in this loop",
                             m.options.max_instructions, m.thread_name(s, static_cast<u32>(std::countr_zero(live))))
               : fmt::format("a loop runs more than {} trips in {}", m.options.max_trips,
                             m.thread_name(s, static_cast<u32>(std::countr_zero(live)))),
           "check its end and step, or raise the limit of the interpreter"},
          in.op);
    m.stop = true;
    return Status::done;
  }
  s.set_mask(live);
  return Status::next;
}
Status loop_end(Machine& m, Simdgroup& s, const Instr& in) {
  run_copies(m, s, in.first, in.b, ~u64{0});
  run_copies(m, s, in.first + in.b, in.count - in.b, s.mask);
  with_integer(in.elem, [&]<class T>() { step_forward<T>(m, s, in); });
  ++s.frames.back().trip;
  s.pc = in.target;
  return Status::next;
}
Status end(Machine&, Simdgroup&, const Instr&) { return Status::done; }
Status copy(Machine& m, Simdgroup& s, const Instr& in) {
  run_copies(m, s, in.first, in.count, in.imm ? s.mask : ~u64{0});
  return Status::next;
}
}  // namespace

const ControlHandlers& control_handlers() {
  static constexpr ControlHandlers handlers{if_begin, then_end, else_end, loop_begin, loop_head, loop_end, end, copy};
  return handlers;
}

}  // namespace iron::exec
