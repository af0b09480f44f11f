// A file descriptor that is closed at its owner's end.
#pragma once

#include <unistd.h>

namespace frn {

class Descriptor {
 public:
  // Takes what open() gave, -1 too: number() then tells.
  explicit Descriptor(int number) : number_(number) {}
  ~Descriptor() {
    if (number_ >= 0) close(number_);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  int number() const { return number_; }

 private:
  int number_;
};

}  // namespace frn
