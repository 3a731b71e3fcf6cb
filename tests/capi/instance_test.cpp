// Kernels as objects without a type: fields by name, specialisation as text, what is refused.
#include "iron/instance.h"

#include <gtest/gtest.h>

#include "iron/dsl.h"
#include "iron/hopper.h"

namespace iron {
namespace {

struct Tile {
  u32 rows = 4;
  bool wide = false;
};
enum class Form { plain, turned };

struct Sample {
  In<f32> x;
  Optional<In<f32>> bias;
  TensorMap<f16> picture;
  Out<f32> y;
  Scalar<u32> n;
  u32 depth = 2;
  f32 factor = 0.5f;
  Form form = Form::plain;
  Tile tile;

  void operator()() const { y[grid_thread_id()] = x[grid_thread_id()] * factor; }
};

detail::InstanceOf<Sample> sample() { return detail::InstanceOf<Sample>(unbound<Sample>()); }

TEST(Instance, FieldsHaveNamesAndKinds) {
  const auto k = sample();
  using Kind = KernelInstance::Kind;
  EXPECT_EQ(k.find("x")->ops->kind, Kind::buffer);
  EXPECT_EQ(k.find("n")->ops->kind, Kind::scalar);
  EXPECT_EQ(k.find("tile")->ops->kind, Kind::spec);
  EXPECT_TRUE(k.find("bias")->ops->optional);
  EXPECT_TRUE(k.find("picture")->ops->tensor);
  EXPECT_EQ(k.find("z"), nullptr);
  std::string names;
  for (const auto& p : k.parameters()) names += std::string(p.name) + " ";
  EXPECT_EQ(names, "x picture y n ");
  EXPECT_TRUE(k.has_grid());
}

TEST(Instance, SpecialisationIsReadAndWritten) {
  auto k = sample();
  k.specialise("depth=7,form=1,tile={wide=true},factor=1.25,bias=present");
  EXPECT_EQ(k.specialisation(), "bias=present,depth=7,factor=1.250000,form=1,tile={rows=4,wide=true}");
  EXPECT_EQ(k.parameters().size(), 5u);
  auto other = k.clone();
  other->specialise(k.specialisation());  // what it writes it reads
  EXPECT_EQ(other->key(), k.key());
  other->specialise("bias=absent");
  EXPECT_EQ(other->parameters().size(), 4u);
  EXPECT_EQ(k.parameters().size(), 5u);  // copies are independent
}

TEST(Instance, BadSpecialisationsNameWhatThereIs) {
  const auto refused = [](const char* text) {
    auto k = sample();
    try {
      k.specialise(text);
    } catch (const Error& e) {
      return e.code() + " " + e.what();
    }
    return std::string("accepted");
  };
  EXPECT_NE(refused("deep=7").find("depth=2"), std::string::npos);
  EXPECT_EQ(refused("deep=7").substr(0, 6), "SPEC01");
  for (const char* text : {"n=3", "x=3"}) EXPECT_EQ(refused(text).substr(0, 6), "SPEC01") << text;
  for (const char* text : {"depth=-1", "depth=x", "depth=", "tile={wide=perhaps}", "tile=3", "tile={tall=1}",
                           "tile={rows=1", "factor=nan", "bias=maybe", "depth", "=3", "tile=}"})
    EXPECT_EQ(refused(text).substr(0, 6), "SPEC02") << text;
}

TEST(Instance, ArgumentsAreBound) {
  auto k = sample();
  f32 data[8] = {};
  k.find("x")->ops->bind(k.find("x")->at, BufferRef{data, sizeof data, true});
  k.find("y")->ops->bind(k.find("y")->at, BufferRef{data + 4, 4 * sizeof(f32), true});
  k.find("n")->ops->set(k.find("n")->at, 9);
  TensorShape shape;
  shape.rank = 2, shape.dims[0] = 6, shape.dims[1] = 5, shape.strides[0] = 2, shape.strides[1] = 32;
  k.find("picture")->ops->bind_tensor(k.find("picture")->at, BufferRef{data, 160, true}, shape);
  const auto args = k.arguments();
  ASSERT_EQ(args.size(), 4u);
  EXPECT_EQ(args[0].buffer.data, data);
  EXPECT_EQ(args[1].tensor, shape);
  EXPECT_EQ(args[3].bits, 9u);
  EXPECT_EQ(k.grid().items, 4u);  // a thread an element of the output
}

}  // namespace
}  // namespace iron
