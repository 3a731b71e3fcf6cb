// Roles of warpgroups, turns between them, clusters of threadgroups.
#pragma once

#include <vector>

#include "iron/dsl/hopper/view.h"

namespace iron {

/// Registers that a thread of a role may use: a multiple of 8 from 24 to 256. All warpgroups of a threadgroup together
/// have 65,536.
struct Regs {
  u32 count = 0;
};
enum class Issue : u8 { all, one };  ///< `one`: one elected thread runs the role

struct RoleDecl {
  std::string name;
  u32 warpgroups = 1;
  Regs registers = {};
  Issue issue = Issue::all;
};

/// The role that is being recorded.
class Role {
 public:
  Role(std::string name, u32 warpgroups) : name_(std::move(name)), warpgroups_(warpgroups) {}
  bool is(std::string_view other) const { return name_ == other; }
  const std::string& name() const { return name_; }
  u32 warpgroups() const { return warpgroups_; }
  /// The number of this warpgroup in the role.
  Slot index(detail::Loc loc = detail::Loc::here()) const {
    return Slot(detail::emit(detail::Opcode::RoleIndex, loc, {}), loc);
  }
  /// All threads of the role arrive before any leaves. barrier() would wait for the other roles, and is refused.
  void barrier(detail::Loc loc = detail::Loc::here()) const { detail::emit(detail::Opcode::RoleBarrier, loc, {}); }

 private:
  std::string name_;
  u32 warpgroups_;
};

/// `for (auto& role : roles({{"load", 1, Regs{40}, Issue::one}, {"mma", 2, Regs{232}}}))`: the body is recorded once a
/// role, and a host `if (role.is("load"))` picks its text. Warpgroups of 128 threads are counted through the list.
class Roles {
 public:
  Roles(const std::vector<RoleDecl>& decls, detail::Loc loc) : loc_(loc) {
    std::string text;
    std::vector<std::string> names;
    for (const auto& d : decls) {
      if (d.name.empty() || d.name.find_first_of(" ;\"") != std::string::npos || d.warpgroups == 0)
        detail::refuse("TIER01", "a role named '" + d.name + "' of " + std::to_string(d.warpgroups) + " warpgroups",
                       loc, "name roles by one word and give each at least one warpgroup");
      text += (text.empty() ? "" : "; ") + d.name + " " + std::to_string(d.warpgroups) + " " +
              std::to_string(d.registers.count) + (d.issue == Issue::one ? " one" : " all");
      names.push_back(d.name);
      roles_.emplace_back(d.name, d.warpgroups);
    }
    if (roles_.empty()) detail::refuse("TIER01", "a list without roles", loc, "name at least one role");
    token_ = detail::roles_open(names, text, loc);
  }
  Roles(const Roles&) = delete;
  ~Roles() noexcept(false) {
    if (!done_ && std::uncaught_exceptions() == exceptions_) {
      done_ = true;
      detail::left_early(token_.depth, "role", loc_);
    }
  }
  struct Sentinel {};
  struct Iterator {
    Roles* roles;
    Role& operator*() const { return roles->roles_[roles->token_.role]; }
    Iterator& operator++() {
      roles->done_ = !detail::roles_next(roles->token_);
      return *this;
    }
    bool operator!=(Sentinel) const { return !roles->done_; }
  };
  Iterator begin() { return {this}; }
  Sentinel end() const { return {}; }

 private:
  std::vector<Role> roles_;
  detail::RolesToken token_;
  detail::Loc loc_;
  bool done_ = false;
  int exceptions_ = std::uncaught_exceptions();
};
inline Roles roles(const std::vector<RoleDecl>& decls, detail::Loc loc = detail::Loc::here()) {
  return Roles(decls, loc);
}

/// Turns of the warpgroups of one role: enter() waits for the warpgroup's turn, leave() hands it on; the first
/// warpgroup begins.
class Turns {
 public:
  explicit Turns(std::string role, detail::Loc loc = detail::Loc::here())
      : role_(std::move(role)), id_(detail::emit(detail::Opcode::TurnNew, loc, {})) {}
  void enter(const Role& role, detail::Loc loc = detail::Loc::here()) const {
    emit(detail::Opcode::TurnEnter, role, loc);
  }
  void leave(const Role& role, detail::Loc loc = detail::Loc::here()) const {
    emit(detail::Opcode::TurnLeave, role, loc);
  }

 private:
  void emit(detail::Opcode code, const Role& role, detail::Loc loc) const {
    if (!role.is(role_))
      detail::refuse("TIER01", "turns of role " + role_ + " taken in role " + role.name(), loc,
                     "take turns in one role");
    detail::emit(code, loc, {{id_}});
  }
  std::string role_;
  detail::Id id_;
};

/// Threadgroups that run together and reach each other's threadgroup memory: consecutive ones along x.
class Cluster {
 public:
  explicit Cluster(u32 size, detail::Loc loc = detail::Loc::here()) : size_(size) {
    if (size == 0 || size > 8)
      detail::refuse("TIER01", "a cluster of " + std::to_string(size) + " threadgroups", loc, "use 1 to 8");
  }
  u32 size() const { return size_; }
  /// This threadgroup's number in its cluster.
  Val<Index> rank(detail::Loc loc = detail::Loc::here()) const {
    if (size_ == 1) return Val<Index>(detail::constant_of(DType::index, i64{0}, true, loc), loc, true);
    return Val<Index>(detail::emit(detail::Opcode::ClusterRank, loc, {}, size_), loc, true);
  }
  /// All threads of the cluster arrive before any leaves.
  void sync(detail::Loc loc = detail::Loc::here()) const {
    if (size_ == 1)
      barrier(loc);
    else
      detail::emit(detail::Opcode::ClusterSync, loc, {}, size_);
  }

 private:
  u32 size_;
};
inline Multicast::Multicast(const Cluster& cluster) : threadgroups(cluster.size()) {}

/// One tile of a persistent kernel's output.
struct TileId {
  Val<Index> m, n;
};

/// The tiles of an m x n grid that this cluster of threadgroups works on, one after another: `for (auto t : tiles)`.
/// They run through super-rows of `group` rows of tiles, column by column, so that what runs together shares operands.
class Tiles {
 public:
  Tiles(Use<Index> m, Use<Index> n, u32 group, const Cluster& cluster, detail::Loc loc = detail::Loc::here())
      : m_(m.arg.id, loc, true), n_(n.arg.id, loc, true), group_(group), cluster_(cluster.size()), loc_(loc) {}

  class Iterator {
   public:
    explicit Iterator(const Tiles& tiles)
        : tiles_(tiles),
          range_(range(threadgroup_id(Axis::x, tiles.loc_) / tiles.cluster_, tiles.m_ * tiles.n_,
                       threadgroups(Axis::x, tiles.loc_) / tiles.cluster_, tiles.loc_)),
          at_(range_.begin()) {}
    Iterator(const Iterator&) = delete;
    TileId operator*() const {
      const auto t = *at_;
      const auto in_group = tiles_.n_ * tiles_.group_;
      const auto first = t / in_group * tiles_.group_;
      const auto height = min(tiles_.m_ - first, tiles_.group_);
      const auto in = t % in_group;
      return {first + in % height, in / height};
    }
    Iterator& operator++() {
      ++at_;
      return *this;
    }
    bool operator!=(Range::Sentinel s) const { return at_ != s; }

   private:
    const Tiles& tiles_;
    Range range_;
    Range::Iterator at_;
  };
  Iterator begin() const { return Iterator(*this); }
  Range::Sentinel end() const { return {}; }

 private:
  Val<Index> m_, n_;
  u32 group_, cluster_;
  detail::Loc loc_;
};

}  // namespace iron
