// Ranks are reached by the address that leads to the others.
#include "frn/dist/own_address.h"

#include <gtest/gtest.h>

#include "frn/core/error.h"

namespace frn::dist {
namespace {

TEST(OwnAddress, TowardsTheMachineItselfIsTheLoopback) {
  EXPECT_EQ(own_address_towards("127.0.0.1"), "127.0.0.1");
  const auto own = own_address_towards("localhost");
  EXPECT_TRUE(own == "127.0.0.1" || own == "::1") << own;
}

TEST(OwnAddress, AnUnknownHostIsNamed) {
  try {
    own_address_towards("no-such-host.invalid");
    FAIL() << "names under .invalid do not resolve";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("MASTER_ADDR must be a machine that ranks can reach"), std::string::npos);
    EXPECT_NE(std::string(error.what()).find("no-such-host.invalid"), std::string::npos);
  }
}

}  // namespace
}  // namespace frn::dist
