// Pipelines between a role that loads and a role that uses: rings of slots with barriers, phases kept by the compiler.
#pragma once

#include "iron/dsl/hopper/roles.h"

namespace iron {

/// The loading side: one place in the ring for the whole kernel.
class Producer {
 public:
  explicit Producer(detail::Id pipe) : pipe_(pipe) {}
  /// Waits until the next slot is empty; the bytes of all copies that name it are expected.
  LoadSlot acquire(detail::Loc loc = detail::Loc::here()) {
    const detail::Id slot = detail::emit(detail::Opcode::PipeAcquire, loc, {{pipe_}});
    const detail::Id expect = detail::emit(detail::Opcode::PipeExpect, loc, {{pipe_}, {slot}}, 0);
    return LoadSlot(slot, pipe_, expect, loc);
  }

 private:
  detail::Id pipe_;
};

/// The using side: each warpgroup has its own place in the ring.
class Consumer {
 public:
  explicit Consumer(detail::Id pipe) : pipe_(pipe) {}
  /// Waits until the next slot is full; the warpgroup holds it until release.
  Slot wait(detail::Loc loc = detail::Loc::here()) {
    return Slot(detail::emit(detail::Opcode::PipeWait, loc, {{pipe_}}), loc);
  }
  /// Gives back the slots held, but for the newest `keep`.
  void release(u32 keep = 0, detail::Loc loc = detail::Loc::here()) {
    detail::emit(detail::Opcode::PipeRelease, loc, {{pipe_}}, keep);
  }

 private:
  detail::Id pipe_;
};

/// A ring of `stages` slots from one role to another. No parity or phase appears in kernels.
class Pipeline {
 public:
  Pipeline(u32 stages, std::string from, std::string to, detail::Loc loc = detail::Loc::here())
      : from_(std::move(from)), to_(std::move(to)), id_(detail::emit(detail::Opcode::PipeNew, loc, {}, stages)) {}
  Producer producer(detail::Loc loc = detail::Loc::here()) const {
    in_role(from_, loc);
    return Producer(id_);
  }
  Consumer consumer(detail::Loc loc = detail::Loc::here()) const {
    in_role(to_, loc);
    return Consumer(id_);
  }

 private:
  void in_role(const std::string& role, detail::Loc loc) const {
    if (const auto here = detail::current_role(loc); here != role)
      detail::refuse("TIER01",
                     "this side of the pipeline belongs to role " + role + ", not to " +
                         (here.empty() ? std::string("the whole threadgroup") : std::string(here)),
                     loc, "take producer() in the role that loads and consumer() in the role that uses");
  }
  std::string from_, to_;
  detail::Id id_;
};

namespace detail {
inline u64 copy_imm(bool multicast, Cache cache) {
  return ir::pack(ir::CopyImm{multicast, static_cast<ir::CachePolicy>(cache)});
}

template <class T, Access access>
void TensorField<T, access>::load(const LoadSlot& slot, const View<T>& to, std::initializer_list<Use<Index>> at,
                                  Multicast multicast, Cache cache) const
  requires(access != Access::out)
{
  const Loc loc = at.size() ? at.begin()->loc : slot.loc();
  std::vector<Arg> operands{{memory(loc)}, {to.id()}, {slot.pipe()}, {slot.id()}};
  for (const auto& c : at) operands.push_back(c.arg);
  emit(Opcode::TmaLoad, loc, operands, copy_imm(multicast.threadgroups > 1, cache));
  add_to_immediate(slot.expect(),
                   u64{to.row_count()} * to.col_count() * dtype_size(dtype_of<T>) * multicast.threadgroups);
}
template <class T, Access access>
void TensorField<T, access>::store(const View<T>& from, std::initializer_list<Use<Index>> at) const
  requires(access != Access::in)
{
  const Loc loc = at.size() ? at.begin()->loc : Loc{};
  std::vector<Arg> operands{{memory(loc)}, {from.id()}};
  for (const auto& c : at) operands.push_back(c.arg);
  emit(Opcode::TmaStore, loc, operands, copy_imm(false, Cache::normal));
}
}  // namespace detail

/// Waits until the stores that the warpgroup started from this view have read it.
template <class T>
void reclaim(const View<T>& view, detail::Loc loc = detail::Loc::here()) {
  detail::emit(detail::Opcode::Reclaim, loc, {{view.id()}});
}

}  // namespace iron
