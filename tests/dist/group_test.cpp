// Ranks exchange tensors and text, and find out which of them differs. Ranks are threads here, over real sockets.
#include "frn/dist/group.h"

#include <ATen/ops/equal.h>
#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <functional>
#include <thread>

#include "frn/dist/device.h"

namespace frn::dist {
namespace {

constexpr int64_t kWorld = 3;

int free_port() {
  const int descriptor = ::socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof(address);
  EXPECT_EQ(::bind(descriptor, reinterpret_cast<sockaddr*>(&address), length), 0);
  EXPECT_EQ(::getsockname(descriptor, reinterpret_cast<sockaddr*>(&address), &length), 0);
  ::close(descriptor);
  return ntohs(address.sin_port);
}

void on_every_rank(const std::function<void(Group&)>& body) {
  const int port = free_port();
  std::vector<std::jthread> ranks;
  for (int64_t rank = 0; rank < kWorld; ++rank) {
    ranks.emplace_back([&body, port, rank] {
      const Place place{
          .rank = rank, .world = kWorld, .local_rank = rank, .master_address = "127.0.0.1", .master_port = port};
      const auto group = make_group(place, std::chrono::seconds(30));
      body(*group);
      group->barrier();  // rank 0 keeps the store
    });
  }
}

TEST(Group, GatherStacksEveryRanksTensorInOrder) {
  on_every_rank([](Group& group) {
    const auto rows = group.gather(at::full({2}, static_cast<double>(group.rank()), at::kDouble));
    EXPECT_TRUE(at::equal(rows, at::tensor({0., 0., 1., 1., 2., 2.}, at::kDouble).view({kWorld, 2})));
  });
}

TEST(Group, BroadcastGivesRankZerosTensorsOfAnyTypeAndText) {
  on_every_rank([](Group& group) {
    const bool first = group.is_first();
    const auto wide = first ? at::ones({2, 3}) : at::zeros({2, 3});
    const auto whole = first ? at::full({4}, 7, at::kLong) : at::zeros({4}, at::kLong);
    group.broadcast({wide, whole});
    EXPECT_TRUE(at::equal(wide, at::ones({2, 3})));
    EXPECT_TRUE(at::equal(whole, at::full({4}, 7, at::kLong)));
    EXPECT_EQ(group.broadcast_text(first ? "the first's words" : "another's"), "the first's words");
    EXPECT_EQ(group.broadcast_text(first ? "" : "another's"), "");
  });
}

TEST(Group, ARankWithOtherWeightsIsNamed) {
  on_every_rank([](Group& group) {
    EXPECT_NO_THROW(group.check_equal({at::ones({3})}, "weights"));
    const auto own = at::full({3}, group.rank() == 1 ? 2.0 : 1.0);
    try {
      group.check_equal({own}, "weights");
      ADD_FAILURE() << "rank 1 differs";
    } catch (const Error& error) {
      EXPECT_NE(
          std::string(error.what()).find("weights must be the same on all ranks but differ from rank 0's on rank 1"),
          std::string::npos)
          << error.what();
    }
  });
}

TEST(Device, WithoutAGpuOnlyTheProcessorCanBeChosen) {
  EXPECT_TRUE(choose_device("cpu", {}).is_cpu());
  EXPECT_THROW(choose_device("tpu", {}), Error);
}

}  // namespace
}  // namespace frn::dist
