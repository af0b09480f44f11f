#include "frn/core/protobuf.h"

#include <gtest/gtest.h>

namespace frn::protobuf {
namespace {

using namespace std::string_literals;

// The examples of protobuf's own description of its wire format.
TEST(ProtobufMessage, IsEncodedAsProtobufSays) {
  EXPECT_EQ(Message().integer(1, 150).to_string(), "\x08\x96\x01"s);
  EXPECT_EQ(Message().bytes(2, "testing").to_string(), "\x12\x07testing"s);
  EXPECT_EQ(Message().message(3, Message().integer(1, 150)).to_string(), "\x1a\x03\x08\x96\x01"s);
}

TEST(ProtobufMessage, TakesTheEndsOfItsTypes) {
  EXPECT_EQ(Message().integer(1, 0).to_string(), "\x08\x00"s);
  EXPECT_EQ(Message().integer(1, -2).to_string(), "\x08\xfe\xff\xff\xff\xff\xff\xff\xff\xff\x01"s);
  EXPECT_EQ(Message().integer(20, 7).to_string(), "\xa0\x01\x07"s);
  EXPECT_EQ(Message().real(2, 1.0F).to_string(), "\x15\x00\x00\x80\x3f"s);
  EXPECT_EQ(Message().real(2, 1.0).to_string(), "\x11\x00\x00\x00\x00\x00\x00\xf0\x3f"s);
  EXPECT_EQ(Message().to_string(), "");
  EXPECT_EQ(Message().message(1, Message()).to_string(), "\x0a\x00"s);
}

TEST(ProtobufMessage, WritesBorrowedBytesInTheirPlace) {
  const std::string large(300, 'x');
  const auto bytes = std::as_bytes(std::span(large));
  const auto inner = Message().integer(1, 1).borrowed(9, bytes).borrowed(9, bytes).bytes(8, "end");
  const auto copied = Message().integer(1, 1).bytes(9, large).bytes(9, large).bytes(8, "end");
  EXPECT_EQ(inner.to_string(), copied.to_string());
  const auto outer = Message().message(5, inner).message(5, inner).integer(1, 2);
  EXPECT_EQ(outer.to_string(), Message().message(5, copied).message(5, copied).integer(1, 2).to_string());
  EXPECT_EQ(outer.size(), outer.to_string().size());
  size_t borrowed = 0;
  for (const auto& piece : outer.pieces()) borrowed += piece.data() == bytes.data() ? 1 : 0;
  EXPECT_EQ(borrowed, 4) << "they must not be copied";
}

}  // namespace
}  // namespace frn::protobuf
