// A setting of detection, where no torch is wanted.
#pragma once

namespace frn::train {

// What the losses of a detector are divided by, in positive anchors: those that stand for a box.
enum class LossNormaliser {
  kDevice,  // of a device's images, at least 1; then the mean over devices (the paper's)
  kStep,    // of all images of a step, where an image counts at least 1: devices make no difference
  kImage,   // of an image, at least 1; then the mean over images (torchvision's)
};

}  // namespace frn::train
