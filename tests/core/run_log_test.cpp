// A log holds whole lines whatever happens to its writer, and a resumed run's reads as an uninterrupted one's.
#include "frn/core/run_log.h"

#include <sys/stat.h>

#include <cmath>
#include <limits>

#include "tests/core/files.h"

namespace frn {
namespace {

class RunLogFile : public FolderTest {
 protected:
  const std::filesystem::path path_ = folder_ / "log.jsonl";
};

Value train_line(int64_t step) {
  return {{"event", "train"}, {"step", step}, {"loss", 1.0 / static_cast<double>(step)}};
}

TEST_F(RunLogFile, WhatIsAppendedIsReadInOrder) {
  {
    RunLog log(path_);
    log.append({{"event", "start"}, {"model", "a \"b\"\nc"}});
    log.append(train_line(1));
  }
  RunLog(path_).append(train_line(2));
  const auto lines = RunLog::read(path_);
  ASSERT_EQ(lines.size(), 3);
  EXPECT_EQ(lines[0], (Value{{"event", "start"}, {"model", "a \"b\"\nc"}}));
  EXPECT_EQ(lines[1], train_line(1));
  EXPECT_EQ(lines[2], train_line(2));
}

TEST_F(RunLogFile, ALineCanBeReadAsSoonAsItIsAppended) {
  RunLog log(path_);
  log.append(train_line(1));
  EXPECT_EQ(RunLog::read(path_).size(), 1);
}

TEST_F(RunLogFile, NotANumberIsNullAndBytesThatAreNoTextDoNotEndTheRun) {
  RunLog log(path_);
  log.append({{"loss", std::nan("")}, {"norm", std::numeric_limits<double>::infinity()}, {"file", "\xFF.jpg"}});
  const auto line = RunLog::read(path_).at(0);
  EXPECT_TRUE(line.at("loss").is_null());
  EXPECT_TRUE(line.at("norm").is_null());
  EXPECT_NE(line.at("file").as_text().find(".jpg"), std::string::npos);
}

TEST_F(RunLogFile, ACutLastLineIsLeftOutAndTheNextStartsALineOfItsOwn) {
  put(path_, to_json(train_line(1)) + "\n" + R"({"event":"tra)");
  EXPECT_EQ(RunLog::read(path_).size(), 1);
  RunLog(path_).append(train_line(2));
  EXPECT_EQ(contents(path_), to_json(train_line(1)) + "\n" + to_json(train_line(2)) + "\n");
}

TEST_F(RunLogFile, AfterTruncationItReadsAsAnUninterruptedRun) {
  {
    RunLog log(path_);
    log.append({{"event", "start"}});
    for (int64_t step = 1; step <= 5; ++step) log.append(train_line(step));
    log.append({{"event", "broken_image"}, {"file", "x.jpg"}});  // without a step: it came after step 5
  }
  std::ofstream(path_, std::ios::app) << R"({"event":"train","st)";
  RunLog resumed(path_);
  resumed.truncate_after(3);
  for (int64_t step = 4; step <= 5; ++step) resumed.append(train_line(step));
  const auto lines = RunLog::read(path_);
  ASSERT_EQ(lines.size(), 6);
  EXPECT_EQ(lines[0]["event"], "start");
  for (size_t step = 1; step <= 5; ++step) EXPECT_EQ(lines[step], train_line(static_cast<int64_t>(step)));
  EXPECT_EQ(files(), 1) << "something was left behind";
}

TEST_F(RunLogFile, TruncationAtOrAfterTheLastStepChangesNothing) {
  RunLog log(path_);
  log.append(train_line(1));
  log.append(train_line(2));
  const auto before = contents(path_);
  log.truncate_after(2);
  log.truncate_after(100);
  EXPECT_EQ(contents(path_), before);
  log.truncate_after(0);
  EXPECT_EQ(contents(path_), "");
}

TEST_F(RunLogFile, AFullDiskIsAnErrorAndTheLinesBeforeItStayWhole) {
  RunLog log(path_);
  log.append(train_line(1));
  const auto before = contents(path_);
  std::string message;
  {
    const NoFileLongerThan a_part_of_the_line(before.size() + 5);
    message = error_of([&] { log.append(train_line(2)); });
  }
  EXPECT_NE(message.find("[run log] " + path_.string() + ": cannot write: "), std::string::npos) << message;
  EXPECT_EQ(contents(path_), before);
  log.append(train_line(2));  // once there is room again
  EXPECT_EQ(RunLog::read(path_).size(), 2);
}

TEST_F(RunLogFile, AFolderOrAMissingFileIsNamedWithTheReason) {
  EXPECT_NE(error_of([&] { RunLog::read(path_); }).find("cannot open: No such file"), std::string::npos);
  EXPECT_NE(error_of([&] { RunLog::read(folder_); }).find("Is a directory"), std::string::npos);
  EXPECT_NE(error_of([&] { RunLog{folder_}; }).find("cannot write: Is a directory"), std::string::npos);
  EXPECT_NE(error_of([&] { RunLog{folder_ / "missing" / "log.jsonl"}; }).find("No such file"), std::string::npos);
}

TEST_F(RunLogFile, AFileThatMayNotBeWrittenSaysSo) {
  if (geteuid() == 0) GTEST_SKIP() << "root may write everywhere";
  put(path_, "");
  chmod(path_.c_str(), 0400);
  EXPECT_NE(error_of([&] { RunLog{path_}; }).find("cannot write: Permission denied"), std::string::npos);
}

TEST_F(RunLogFile, AWholeLineThatIsNoObjectIsNamedByItsNumber) {
  for (const char* line : {"{\"step\":", "", "[1]", "nonsense", "\xFF"}) {
    put(path_, to_json(train_line(1)) + "\n" + line + "\n" + to_json(train_line(2)) + "\n");
    const auto message = error_of([&] { RunLog::read(path_); });
    EXPECT_NE(message.find("line 2 must be a JSON object"), std::string::npos) << line << ": " << message;
    const auto before = contents(path_);
    EXPECT_NE(error_of([&] { RunLog(path_).truncate_after(1); }).find("line 2"), std::string::npos) << line;
    EXPECT_EQ(contents(path_), before);
  }
}

TEST_F(RunLogFile, OnlyObjectsAreLines) {
  RunLog log(path_);
  EXPECT_NE(error_of([&] { log.append(3); }).find("must be a JSON object but is a number"), std::string::npos);
  EXPECT_EQ(contents(path_), "");
}

}  // namespace
}  // namespace frn
