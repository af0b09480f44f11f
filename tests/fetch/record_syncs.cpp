// To be loaded before a program (LD_PRELOAD): writes what it does to files and folders, in its order, to the file that
// FRN_SYNC_RECORD names. A line is "sync PATH", "rename PATH" (of the new name) or "remove PATH". With FRN_NO_LINKS
// set, files cannot be linked, as on disks for cameras.
#include <dlfcn.h>
#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <string>

namespace {

void record(const char* what, const std::string& path) {
  const char* const file = std::getenv("FRN_SYNC_RECORD");
  if (file == nullptr) return;
  const int descriptor = open(file, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
  dprintf(descriptor, "%s %s\n", what, path.c_str());
  close(descriptor);
}

template <typename Function>
Function* next(const char* name) {
  return reinterpret_cast<Function*>(dlsym(RTLD_NEXT, name));
}

}  // namespace

#define FRN_EXPORTED extern "C" __attribute__((visibility("default")))

FRN_EXPORTED int fsync(int descriptor) {
  char path[4096];
  const auto link = "/proc/self/fd/" + std::to_string(descriptor);
  const ssize_t length = readlink(link.c_str(), path, sizeof(path));
  record("sync", {path, static_cast<size_t>(length < 0 ? 0 : length)});
  return next<int(int)>("fsync")(descriptor);
}

FRN_EXPORTED int rename(const char* from, const char* to) noexcept {
  record("rename", to);
  return next<int(const char*, const char*)>("rename")(from, to);
}

FRN_EXPORTED int link(const char* from, const char* to) noexcept {
  if (std::getenv("FRN_NO_LINKS") == nullptr) return next<int(const char*, const char*)>("link")(from, to);
  errno = EPERM;
  return -1;
}

FRN_EXPORTED int unlink(const char* path) noexcept {
  record("remove", path);
  return next<int(const char*)>("unlink")(path);
}

FRN_EXPORTED int remove(const char* path) noexcept {
  record("remove", path);
  return next<int(const char*)>("remove")(path);
}
