// A folder's lock: one holder, and it ends with its process.
#include "frn/core/folder_lock.h"

#include <sys/wait.h>

#include <thread>

#include "tests/core/files.h"

namespace frn {
namespace {

class Locks : public FolderTest {
 protected:
  FolderLock::Options options_{.file = "x.lock", .operation = "test", .advice = "wait"};
  std::string second_attempt() {
    return error_of([&] { const FolderLock lock(folder_, options_); });
  }
};

TEST_F(Locks, ASecondHolderIsRefusedWithTheFirstOnesNumber) {
  const FolderLock lock(folder_, options_);
  EXPECT_FALSE(lock.weakness());
  const auto message = second_attempt();
  EXPECT_NE(message.find("is in use: its x.lock names process " + std::to_string(getpid()) + " on "), std::string::npos)
      << message;
  EXPECT_TRUE(message.ends_with("; wait")) << message;
}

TEST_F(Locks, IsFreeAndGoneAfterwards) {
  { const FolderLock lock(folder_, options_); }
  EXPECT_EQ(files(), 0);
  EXPECT_EQ(second_attempt(), "no error");
}

TEST_F(Locks, EndsWithAProcessThatIsKilled) {
  int pipe_ends[2];
  ASSERT_EQ(pipe(pipe_ends), 0);
  const pid_t child = fork();
  if (child == 0) {
    const FolderLock lock(folder_, options_);
    [[maybe_unused]] const auto written = write(pipe_ends[1], "x", 1);
    pause();
    _exit(0);
  }
  char held = 0;
  ASSERT_EQ(read(pipe_ends[0], &held, 1), 1);
  EXPECT_NE(second_attempt().find("names process " + std::to_string(child)), std::string::npos);
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
  EXPECT_EQ(second_attempt(), "no error");
  close(pipe_ends[0]);
  close(pipe_ends[1]);
}

TEST_F(Locks, PatienceWaitsForTheHolder) {
  std::optional<FolderLock> lock(std::in_place, folder_, options_);
  std::thread ends([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(300));
    lock.reset();
  });
  auto patient = options_;
  patient.patience = std::chrono::seconds(60);
  EXPECT_EQ(error_of([&] { const FolderLock second(folder_, patient); }), "no error");
  ends.join();
}

TEST_F(Locks, KnowsThatItsFolderWasMovedAndLeavesAnotherHoldersFile) {
  const auto place = folder_ / "run";
  std::filesystem::create_directory(place);
  std::optional<FolderLock> moved(std::in_place, place, options_);
  EXPECT_TRUE(moved->is_in_place());
  std::filesystem::rename(place, folder_ / "elsewhere");
  EXPECT_FALSE(moved->is_in_place());
  std::filesystem::create_directory(place);
  const FolderLock next(place, options_);
  EXPECT_FALSE(moved->is_in_place());
  moved.reset();
  EXPECT_TRUE(next.is_in_place());
}

TEST_F(Locks, AFolderThatIsNotThereIsOneSentence) {
  EXPECT_NE(error_of([&] { const FolderLock lock(folder_ / "none", options_); }).find("cannot make the folder's lock"),
            std::string::npos);
}

}  // namespace
}  // namespace frn
