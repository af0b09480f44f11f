// Preloaded by tests: a file system that takes no locks, as some network file systems do.
#include <cerrno>

extern "C" __attribute__((visibility("default"))) int flock(int /*descriptor*/, int /*operation*/) {
  errno = ENOLCK;
  return -1;
}
